#include "apps/cli/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <map>
#include <optional>
#include <system_error>

#include "apps/cli/terminal.h"
#include "base/error.h"
#include "base/text/suggest.h"
#include "base/text/whole_number.h"

namespace engram {
namespace {

namespace po = boost::program_options;

constexpr std::size_t kPlainColumns = 100;                     // of help where there is no terminal
constexpr std::size_t kLeastColumns = 40, kMostColumns = 120;  // on a terminal: what is wider reads badly
constexpr const char* kFlag = "false | true";                  // how an OptionList describes a true/false option

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> option_names(const OptionList& options, const CommandSyntax& syntax) {
  std::vector<std::string> names = {"help"};
  for (const Option& option : options.options()) names.push_back(option.name);
  names.insert(names.end(), syntax.setting_keys.begin(), syntax.setting_keys.end());
  return names;
}

po::options_description describe(const OptionList& options, const CommandSyntax& syntax) {
  po::options_description description;
  auto add = description.add_options();
  add("help", "");
  for (const Option& option : options.options()) {
    if (option.allowed == kFlag)
      add(option.name.c_str(), "");
    else
      add(option.name.c_str(), po::value<std::string>(), "");
  }
  for (const std::string& key : syntax.setting_keys) add(key.c_str(), po::value<std::string>(), "");
  return description;
}

std::string with_underscores(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// A known option in another spelling, "-" for "_" or the reverse, as (name, value); ("", "") for all else, which is
// left to Boost.
std::pair<std::string, std::string> respelled(const std::string& word, const std::vector<std::string>& names) {
  if (!word.starts_with("--")) return {};
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
  if (contains(names, name)) return {};
  for (const std::string& known : names) {
    if (with_underscores(known) != with_underscores(name)) continue;
    if (equals + 1 == word.size()) throw UserError("option '" + word + "' has no value");
    return {known, equals == std::string::npos ? "" : word.substr(equals + 1)};
  }
  return {};
}

std::vector<po::option> parse(const std::vector<std::string>& arguments, const OptionList& options,
                              const CommandSyntax& syntax) {
  using namespace po::command_line_style;
  const po::options_description description = describe(options, syntax);
  const std::vector<std::string> names = option_names(options, syntax);
  try {
    return po::command_line_parser(arguments)
        .options(description)
        .style(allow_long | long_allow_adjacent | long_allow_next)
        .extra_parser([&names](const std::string& word) { return respelled(word, names); })
        .run()
        .options;
  } catch (const po::unknown_option& error) {
    const std::string text = error.get_option_name();
    const std::size_t begin = std::min(text.find_first_not_of('-'), text.size());
    const std::string name = text.substr(begin, text.find('=') - begin);
    throw UserError("unknown option '--" + name + "'" + did_you_mean(name, names, "--"));
  } catch (const po::error& error) {
    throw UserError(error.what());  // names of known options alone: what() does not end where a text holds %option%
  }
}

// What has been given so far, to find what contradicts it.
class GivenOptions {
 public:
  GivenOptions(const OptionList& options, const CommandSyntax& syntax) : syntax_(syntax) {
    for (const Option& option : options.options())
      if (option.allowed == kAnyText) texts_.push_back(option.name);
  }

  // Throws UserError if the option, or one that means the same, has another value already.
  void add(const std::string& name, const std::string& value) {
    std::string meaning = name;
    for (const auto& [option, setting] : syntax_.short_forms)
      if (name == option) meaning = setting;
    // 1000 and 1k are the same number, but not the same folder.
    const std::string plain = contains(texts_, meaning) ? value : whole_number_digits(value).value_or(value);
    const auto [before, is_new] = given_.try_emplace(meaning, Given{name, value, plain});
    const Given& first = before->second;
    if (!is_new && first.plain != plain)
      throw UserError("--" + first.name + " '" + first.value + "' and --" + name + " '" + value +
                      "' contradict each other: give one of them");
  }

 private:
  struct Given {
    std::string name, value, plain;  // plain: what is compared
  };

  const CommandSyntax& syntax_;
  std::vector<std::string> texts_;      // options that take any text
  std::map<std::string, Given> given_;  // by what is meant
};

// "engram evaluate takes one argument, DIR"
std::string takes_text(const CommandSyntax& syntax) {
  constexpr std::array<const char*, 4> kCounts = {"no argument without dashes", "one argument", "two arguments",
                                                  "three arguments"};
  const std::string command = syntax.command.empty() ? "the command" : "engram " + syntax.command;
  std::string names;
  for (const std::string& name : syntax.positional) names += ", " + name;
  return command + " takes " + kCounts.at(syntax.positional.size()) + names;
}

// The option that the word is but for its dashes, as in "json" and "episodes=3"; "" if it is none.
std::string undashed_option(const std::string& word, const OptionList& options, const CommandSyntax& syntax) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string name = with_underscores(word.substr(0, equals));
  for (const std::string& known : option_names(options, syntax))
    if (with_underscores(known) == name) return "--" + known + word.substr(equals);
  return "";
}

void check_positional(const CommandLine& line, const OptionList& options, const CommandSyntax& syntax) {
  const std::size_t count = line.positional.size(), most = syntax.positional.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& word = line.positional[i];
    if (word.empty() && most > 0)
      throw UserError("'' is not allowed as " + syntax.positional[std::min(i, most - 1)] + ": it is empty");
    if (word.size() > 1 && word[0] == '-')
      throw UserError("unknown option '" + word + "'" +
                      did_you_mean(word.substr(1, word.find('=') - 1), option_names(options, syntax), "--"));
    const std::string option = undashed_option(word, options, syntax);
    const std::string hint = option.empty() ? "" : "; did you mean '" + option + "'?";
    if (i >= most && !syntax.repeats) throw UserError(takes_text(syntax) + "; '" + word + "' is one too many" + hint);
    if (word.find('=') != std::string::npos && !option.empty())
      throw UserError("'" + word + "' is not allowed as " + syntax.positional[std::min(i, most - 1)] + hint);
  }
  if (count + syntax.optional < most && !line.help)
    throw UserError("the argument " + syntax.positional[count] + " is missing; see --help");
}

}  // namespace

bool is_flag(const Option& option) { return option.allowed == kFlag && option.name.find('.') == std::string::npos; }

CommandLine parse_command_line(const std::vector<std::string>& arguments, OptionList& options,
                               const CommandSyntax& syntax) {
  CommandLine line;
  if (contains(arguments, "--help") || contains(arguments, "-h")) line.help = true;
  std::vector<std::string> plain = arguments;
  std::erase(plain, "-h");
  GivenOptions given(options, syntax);
  for (const po::option& option : parse(plain, options, syntax)) {
    const std::string value = option.value.empty() ? "true" : option.value.front();
    if (option.position_key >= 0) {
      line.positional.push_back(option.value.front());
      continue;
    }
    if (value.starts_with("--") && !undashed_option(value.substr(2), options, syntax).empty())
      throw UserError("option '--" + option.string_key + "' has no value; '" + value + "' is an option");
    given.add(option.string_key, value);
    if (contains(syntax.setting_keys, option.string_key))
      line.settings.emplace_back(option.string_key, value);
    else if (option.string_key != "help")
      options.set(option.string_key, value);
  }
  check_positional(line, options, syntax);
  return line;
}

std::vector<std::string> command_line_words(const OptionList& options) {
  std::vector<std::string> words;
  for (const Option& option : options.options()) {
    const std::string value = option.get(), name = "--" + option.name;
    if (option.allowed != kFlag && !value.empty())
      words.push_back(name + "=" + value);
    else if (option.allowed == kFlag && value == "true")
      words.push_back(name);
  }
  return words;
}

void check_not_there(const std::string& option, const std::filesystem::path& file, bool force) {
  std::error_code ignored;
  if (force || !std::filesystem::exists(std::filesystem::symlink_status(file, ignored))) return;
  throw UserError("--" + option + " would overwrite '" + file.string() + "': choose another name, or give --force");
}

std::size_t help_columns() {
  const std::optional<std::size_t> columns = terminal_columns(STDOUT_FILENO);
  return columns ? std::clamp(*columns - 1, kLeastColumns, kMostColumns) : kPlainColumns;
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns) {
  return wrap(text, columns, indent, indent);
}

std::string help_head(const std::vector<std::string>& usage, const std::vector<std::string>& paragraphs) {
  std::string text;
  for (const std::string& line : usage) text += wrapped(line, 2) + "\n";
  for (const std::string& paragraph : paragraphs) text += "\n" + wrapped(paragraph, 0) + "\n";
  return text + "\n";
}

void print_option(std::ostream& out, const std::string& name, const std::string& text, std::size_t columns) {
  const std::size_t help_column = std::min<std::size_t>(34, columns * 34 / kPlainColumns);  // a third of a narrow one
  std::string left = "  --" + name;
  if (left.size() + 2 > help_column)
    left.append("\n").append(help_column, ' ');
  else
    left.resize(help_column, ' ');
  out << left << wrapped(text, help_column, columns) << "\n";
}

void print_options(std::ostream& out, const OptionList& list, const std::string& section, std::size_t columns) {
  for (const Option& option : list.options()) {
    if (!section.empty() && !option.name.starts_with(section + ".")) continue;
    std::string text = option.help;
    if (!is_flag(option) || option.get() == "true")
      text += " [" + (option.allowed == kAnyText ? "" : option.allowed + "; ") + "default " +
              (option.get().empty() ? "none" : option.get()) + "]";
    print_option(out, option.name, text, columns);
  }
}

}  // namespace engram
