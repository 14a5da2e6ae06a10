#include "apps/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>

#include "apps/terminal.h"
#include "base/error.h"

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

std::vector<po::option> parse(const std::vector<std::string>& arguments, const OptionList& options,
                              const CommandSyntax& syntax) {
  using namespace po::command_line_style;
  const po::options_description description = describe(options, syntax);
  try {
    return po::command_line_parser(arguments)
        .options(description)
        .style(allow_long | long_allow_adjacent | long_allow_next)
        .run()
        .options;
  } catch (const po::unknown_option& error) {
    const std::string text = error.get_option_name();
    const std::size_t begin = std::min(text.find_first_not_of('-'), text.size());
    const std::string name = text.substr(begin, text.find('=') - begin);
    const std::string near = nearest(name, option_names(options, syntax));
    throw UserError("unknown option '--" + name + "'" + (near.empty() ? "" : "; did you mean '--" + near + "'?"));
  } catch (const po::error& error) {
    throw UserError(error.what());  // names of known options alone: what() does not end where a text holds %option%
  }
}

}  // namespace

bool is_flag(const Option& option) { return option.allowed == kFlag && option.name.find('.') == std::string::npos; }

CommandLine parse_command_line(const std::vector<std::string>& arguments, OptionList& options,
                               const CommandSyntax& syntax) {
  CommandLine line;
  if (contains(arguments, "--help") || contains(arguments, "-h")) line.help = true;
  std::vector<std::string> plain = arguments;
  std::erase(plain, "-h");
  for (const po::option& option : parse(plain, options, syntax)) {
    const std::string value = option.value.empty() ? "true" : option.value.front();
    if (option.position_key >= 0)
      line.positional.push_back(option.value.front());
    else if (contains(syntax.setting_keys, option.string_key))
      line.settings.emplace_back(option.string_key, value);
    else if (option.string_key != "help")
      options.set(option.string_key, value);
  }
  const std::size_t most = syntax.positional.size();
  if (line.positional.size() > most && !syntax.repeats)
    throw UserError("argument '" + line.positional[most] + "' is one too many");
  if (line.positional.size() + syntax.optional < most && !line.help)
    throw UserError("the argument " + syntax.positional[line.positional.size()] + " is missing; see --help");
  return line;
}

std::size_t help_columns() {
  const std::optional<std::size_t> columns = terminal_columns(STDOUT_FILENO);
  return columns ? std::clamp(*columns - 1, kLeastColumns, kMostColumns) : kPlainColumns;
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns) {
  return wrap(text, columns, indent, indent);
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
      text += " [" + (option.allowed == "text" ? "" : option.allowed + "; ") + "default " +
              (option.get().empty() ? "none" : option.get()) + "]";
    print_option(out, option.name, text, columns);
  }
}

}  // namespace engram
