// What all commands share: parsing arguments through Boost.Program_options into an OptionList, and printing help from
// one. A command keeps its own options in a struct with list_options(), in a list without a section:
//
//   EvaluateOptions options;
//   const auto line = command_line_of(arguments, options, {.positional = {"DIR"}}, print_evaluate_help);
//   if (!line) return 0;
#pragma once

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"

namespace engram {

// The options of such a struct, bound to it.
template <class Options>
OptionList own_options(Options& options) {
  OptionList list("");
  options.list_options(list);
  return list;
}

struct CommandSyntax {
  std::string command = {};                    // its name, for messages
  std::vector<std::string> positional = {};    // names of the arguments without dashes
  std::size_t optional = 0;                    // how many of the last of them may be left out
  bool repeats = false;                        // the last may be given several times
  std::vector<std::string> setting_keys = {};  // options collected as text instead of being set
  // Options that mean a setting, as (option, setting): given both, they must agree.
  std::vector<std::pair<std::string, std::string>> short_forms = {};
  // What a shell completes: of a text option or an argument without dashes its values, or "DIR" or "FILE" for a path.
  // Needless for arguments that are called so.
  std::map<std::string, std::vector<std::string>> values = {};
};

// Values of an option that names a device.
inline const std::vector<std::string> kDeviceValues = {"auto", "cpu", "cuda"};

struct CommandLine {
  bool help = false;                                          // --help or -h was given; positional may be incomplete
  std::vector<std::string> positional;                        // in order
  std::vector<std::pair<std::string, std::string>> settings;  // (key, value), in order
};

// Whether it is a true | false option of a command itself, which stands on the command line without a value.
bool is_flag(const Option& option);

// Takes `--name value` and `--name=value`, true | false options as a bare `--name`, and "-" and "_" alike in names.
// Throws UserError for an unknown option (with those that may be meant), a missing value, a missing or needless
// argument, a value out of bounds, or an option given twice, or with its short form, with different values.
CommandLine parse_command_line(const std::vector<std::string>& arguments, OptionList& options,
                               const CommandSyntax& syntax = {});

// The line of a command, which sets its options. Nothing where help was asked for: print_help(own), or
// print_help(own, line) where it takes both, has printed it, own being the list of the options.
template <class Options, class PrintHelp>
std::optional<CommandLine> command_line_of(const std::vector<std::string>& arguments, Options& options,
                                           const CommandSyntax& syntax, PrintHelp print_help) {
  OptionList own = own_options(options);
  CommandLine line = parse_command_line(arguments, own, syntax);
  if (!line.help) return line;
  if constexpr (std::invocable<PrintHelp, const OptionList&>)
    print_help(own);
  else
    print_help(own, line);
  return {};
}

// The words with which parse_command_line() sets another list of these options to the values that they have here.
std::vector<std::string> command_line_words(const OptionList& options);

// Throws UserError if `file`, which the option `option` names, is there already and `force` does not allow to replace
// it. A folder or a device in its place is for those to refuse who write the file.
void check_not_there(const std::string& option, const std::filesystem::path& file, bool force);

// Columns that help is written in: those of the terminal, but at most 120; 100 where there is none.
std::size_t help_columns();

// What the help of a command begins with: how it is called, a line each, and what it does, a paragraph each. Ends with
// an empty line.
std::string help_head(const std::vector<std::string>& usage, const std::vector<std::string>& paragraphs);

// One paragraph an option, with what it takes and its default, which is its present value. Of a list with several
// sections only those of `section`, if it is given.
void print_options(std::ostream& out, const OptionList& list, const std::string& section = "",
                   std::size_t columns = help_columns());

// The same for an option that is in no list: `text` says all of it.
void print_option(std::ostream& out, const std::string& name, const std::string& text,
                  std::size_t columns = help_columns());

// `text` broken at blanks into lines of at most `columns`, all but the first indented.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns = help_columns());

}  // namespace engram
