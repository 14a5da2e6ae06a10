// engram completion: scripts with which bash and zsh complete the program's command lines. They are made from the lists
// of options that the commands parse with.
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "agents/learn/presets.h"
#include "agents/run/config/config.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "base/error.h"

namespace engram {
namespace {

// What completion offers for one option.
struct CompletedOption {
  std::string name;           // without dashes
  std::string help, allowed;  // for people
  bool takes_value = true;
  std::vector<std::string> values;  // or "DIR" or "FILE" alone, for a path; empty: nothing is known
};

// What may stand behind some words of the command line.
struct Completed {
  std::string words;  // "train", "compare report"
  std::vector<CompletedOption> options;
  std::string argument;                // its first argument without dashes, "DIR"; empty: there is none
  std::vector<std::string> arguments;  // like CompletedOption::values
};

using Values = std::vector<std::string>;

const Values kDir = {"DIR"}, kFile = {"FILE"};

// The choices of "a | b | c", if it is such.
Values choices_of(const std::string& allowed) {
  if (allowed.find(" | ") == std::string::npos) return {};
  Values choices;
  std::istringstream words(allowed);
  for (std::string word; words >> word;)
    if (word != "|") choices.push_back(word);
  return choices;
}

void add_new(Values& values, const Values& more) {
  for (const std::string& value : more)
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
}

// Everything that a config takes. A key that several tasks, backbones or learners have gets the choices of all.
std::vector<CompletedOption> all_settings() {
  const auto names_of = [](const auto& presets) {
    Values names;
    for (const auto& preset : presets) names.push_back(preset.name);
    return names;
  };
  std::vector<CompletedOption> settings = {
      {"task.name", "the task", "text", true, task_names()},
      {"task.preset", "a published size of a task", "text", true, names_of(task_presets())},
      {"memory.name", "the backbone", "text", true, backbone_names()},
      {"learner.name", "the learner", "text", true, learner_names()},
      {"learner.preset", "published settings of a learner", "text", true, names_of(learner_presets())}};
  const auto add = [&settings](const OptionList& list) {
    for (const Option& option : list.options()) {
      auto found = std::ranges::find(settings, option.name, &CompletedOption::name);
      if (found == settings.end()) {
        settings.push_back({option.name, option.help, option.allowed, true, {}});
        found = settings.end() - 1;
      }
      add_new(found->values, option.name == "run.device" ? kDeviceValues : choices_of(option.allowed));
    }
  };
  Config config;
  add(config.options());
  for (const std::string& name : task_names()) add(TaskConfig(name).options());
  for (const std::string& name : backbone_names()) add(BackboneConfig(name).options());
  for (const std::string& name : learner_names()) add(LearnerConfig(name).options());
  return settings;
}

Values values_of(const CommandSyntax& syntax, const std::string& name) {
  const auto found = syntax.values.find(name);
  return found == syntax.values.end() ? Values{} : found->second;
}

std::vector<Completed> everything() {
  const std::vector<CompletedOption> settings = all_settings();
  std::vector<Completed> all;
  const auto visit = [&](const std::string& words, const OptionList& options, const CommandSyntax& syntax) {
    Completed completed;
    completed.words = words;
    completed.options.push_back({"help", "what it does and takes", "", false, {}});
    for (const Option& option : options.options()) {
      const bool flag = is_flag(option);
      Values values = values_of(syntax, option.name);
      if (values.empty() && !flag) values = choices_of(option.allowed);
      completed.options.push_back({option.name, option.help, option.allowed, !flag, values});
    }
    for (const std::string& key : syntax.setting_keys) {
      const auto found = std::ranges::find(settings, key, &CompletedOption::name);
      completed.options.push_back(found != settings.end() ? *found
                                                          : CompletedOption{key, "of tuning", "text", true, {}});
    }
    if (!syntax.positional.empty()) {
      completed.argument = syntax.positional.front();
      completed.arguments = values_of(syntax, completed.argument);
      if (completed.arguments.empty())
        completed.arguments = completed.argument.find("FILE") == std::string::npos ? kDir : kFile;
    }
    // The word that a command above this one takes: "report" behind "compare".
    if (const std::size_t blank = words.find(' '); blank != std::string::npos) {
      Completed& above = *std::ranges::find(all, words.substr(0, blank), &Completed::words);
      above.argument = "SUBJECT";
      above.arguments.push_back(words.substr(blank + 1));
    }
    all.push_back(std::move(completed));
  };
  for (const Command& command : commands()) command.describe(visit);
  return all;
}

std::string joined(const Values& values, const char* between = " ") {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : between) + value;
  return text;
}

// ---- bash

constexpr const char* kBashBegin = R"(# Completion of engram's command lines in bash: source <(engram completion bash)
_engram() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  local option= prefix= command= options= flags= arguments= values=
  # --name=value comes as three words; as one where = is not in COMP_WORDBREAKS
  if [[ $word == "=" ]]; then
    option=$before word=
  elif [[ $before == "=" ]]; then
    option=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ $word == --*=* ]]; then
    option=${word%%=*} prefix=$option= word=${word#*=}
  elif [[ $before == --* ]]; then
    option=$before
  fi
  ((COMP_CWORD > 1)) && command=${COMP_WORDS[1]}
  ((COMP_CWORD > 2)) && case "$command ${COMP_WORDS[2]}" in
    %BELOW%) command+=" ${COMP_WORDS[2]}" ;;
  esac
  case $command in
    "")
      arguments="%COMMANDS%"
      options="--help --version"
      ;;
)";

constexpr const char* kBashEnd = R"(    *) return ;;
  esac
  [[ " $flags " == *" $option "* ]] && option=
  if [[ -z $option ]]; then
    if [[ $word == -* || -z $arguments ]]; then values=$options; else values=$arguments; fi
  elif [[ -z $values && " $options " == *" $option "* ]]; then
    case $option in
%SETTINGS%    esac
  fi
  case $values in
    "") COMPREPLY=() ;;
    DIR)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      ;;
    FILE)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word") ;;
  esac
  COMPREPLY=("${COMPREPLY[@]/#/$prefix}")
}
complete -F _engram engram
)";

std::string replaced(std::string text, const std::string& mark, const std::string& by) {
  return text.replace(text.find(mark), mark.size(), by);
}

std::string bash_values(const std::vector<CompletedOption>& options) {
  std::string text;
  for (const CompletedOption& option : options)
    if (!option.values.empty()) text += "        --" + option.name + ") values=\"" + joined(option.values) + "\" ;;\n";
  return text;
}

void print_bash(const std::vector<Completed>& all) {
  Values names, below;
  for (const Completed& completed : all)
    completed.words.find(' ') == std::string::npos ? names.push_back(completed.words)
                                                   : below.push_back('"' + completed.words + '"');
  std::cout << replaced(replaced(kBashBegin, "%COMMANDS%", joined(names)), "%BELOW%", joined(below, " | "));
  for (const Completed& completed : all) {
    Values options, flags;
    std::vector<CompletedOption> own;
    for (const CompletedOption& option : completed.options) {
      options.push_back("--" + option.name);
      if (!option.takes_value) flags.push_back("--" + option.name);
      if (option.name.find('.') == std::string::npos) own.push_back(option);
    }
    std::cout << "    \"" << completed.words << "\")\n"
              << "      arguments=\"" << joined(completed.arguments) << "\"\n"
              << "      options=\"" << joined(options) << "\"\n"
              << "      flags=\"" << joined(flags) << "\"\n";
    if (const std::string values = bash_values(own); !values.empty())
      std::cout << "      case $option in\n" << values << "      esac\n";
    std::cout << "      ;;\n";
  }
  std::cout << replaced(kBashEnd, "%SETTINGS%", bash_values(all_settings()));
}

// ---- zsh

constexpr const char* kZshBegin = R"(#compdef engram
# Completion of engram's command lines in zsh: a file _engram in a folder of fpath, or source <(engram completion zsh)
_engram() {
  if ((CURRENT == 2)); then
    local -a commands=(
%COMMANDS%    )
    _describe -t commands command commands
    return
  fi
  shift words
  ((CURRENT--))
  local command=$words[1]
  ((CURRENT > 2)) && case "$words[1] $words[2]" in
    %BELOW%)
      command+=" $words[2]"
      shift words
      ((CURRENT--))
      ;;
  esac
  case $command in
)";

constexpr const char* kZshEnd = R"(  esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _engram "$@"; else compdef _engram engram; fi
)";

// `text` inside of single quotes, with a backslash before each of `special`.
std::string escaped(const std::string& text, const std::string& special) {
  std::string result;
  for (const char character : text) {
    if (special.find(character) != std::string::npos) result += '\\';
    result += character == '\'' ? std::string("'\\''") : std::string(1, character);
  }
  return result;
}

// ":message:action" of zsh's _arguments.
std::string zsh_action(const std::string& message, const Values& values) {
  std::string text = ":";
  text.append(escaped(message, "\\:")).append(":");
  if (values.empty()) return text.append(" ");
  if (values == kDir) return text.append("_files -/");
  if (values == kFile) return text.append("_files");
  return text.append("(").append(joined(values)).append(")");
}

void print_zsh(const std::vector<Completed>& all) {
  std::string lines;
  for (const Command& command : commands())
    lines += "      '" + std::string(command.name) + ":" + escaped(command.summary, "\\:") + "'\n";
  Values below;
  for (const Completed& completed : all)
    if (completed.words.find(' ') != std::string::npos) below.push_back('"' + completed.words + '"');
  std::cout << replaced(replaced(kZshBegin, "%COMMANDS%", lines), "%BELOW%", joined(below, " | "));
  for (const Completed& completed : all) {
    std::cout << "    \"" << completed.words << "\")\n      _arguments";
    for (const CompletedOption& option : completed.options) {
      std::cout << " \\\n        '--" << option.name << (option.takes_value ? "=" : "") << "["
                << escaped(option.help, "\\[]:") << "]"
                << (option.takes_value ? zsh_action(option.allowed, option.values) : "") << "'";
    }
    if (!completed.argument.empty())
      std::cout << " \\\n        '1" << zsh_action(completed.argument, completed.arguments) << "'";
    std::cout << "\n      ;;\n";
  }
  std::cout << kZshEnd;
}

const CommandSyntax kSyntax = {
    .command = "completion", .positional = {"bash|zsh"}, .values = {{"bash|zsh", {"bash", "zsh"}}}};

void print_completion_help() {
  std::cout << "engram completion bash|zsh\n\n"
            << wrapped(
                   "Prints a script with which the shell completes command lines of engram: commands, their options, "
                   "settings, the values of those that have a few, and paths.",
                   0)
            << "\n\n"
            << wrapped("To have it in every shell, put the line into ~/.bashrc, or into ~/.zshrc behind compinit", 0)
            << "\n"
               "  source <(engram completion bash)\n"
               "  source <(engram completion zsh)\n";
}

}  // namespace

void describe_completion(const CommandVisitor& visit) { visit("completion", OptionList(""), kSyntax); }

int run_completion(const std::vector<std::string>& arguments) {
  OptionList none("");
  const CommandLine line = parse_command_line(arguments, none, kSyntax);
  if (line.help) {
    print_completion_help();
    return 0;
  }
  const std::string& shell = line.positional[0];
  if (shell == "bash")
    print_bash(everything());
  else if (shell == "zsh")
    print_zsh(everything());
  else
    throw UserError("there is no completion for shell '" + shell + "'; engram completion takes bash or zsh");
  return 0;
}

}  // namespace engram
