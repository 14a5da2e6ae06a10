// engram train: trains an agent and keeps everything in a run directory.
#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "agents/run/machine/device_failure.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/stop_signals.h"
#include "apps/train/train_run.h"
#include "apps/train/train_seeds.h"
#include "apps/train/train_start.h"
#include "base/error.h"
#include "base/text/words.h"
#include "experiments/plan/experiment.h"
#include "ranks/ranks.h"
#include "storage/run/run_failure.h"
#include "storage/settings.h"

namespace engram {
namespace {

CommandSyntax train_syntax() {
  return {.command = "train",
          .positional = {"DIR"},
          .optional = 1,
          .setting_keys = all_config_keys(),
          .short_forms = {{"seed", "run.seed"}, {"device", "run.device"}, {"on-nan", "run.on_nan"}},
          .values = {{"run", {"DIR"}},
                     {"resume", {"DIR"}},
                     {"adapt", {"DIR"}},
                     {"config", {"FILE"}},
                     {"device", kDeviceValues},
                     {"on-nan", {"stop", "skip"}}}};
}

// The folder of the run, as DIR or as --run.
void take_folder(TrainOptions& options, const CommandLine& line) {
  if (line.positional.empty()) return;
  const std::string& folder = line.positional[0];
  if (!options.run.empty() && options.run != folder)
    throw UserError("DIR '" + folder + "' and --run '" + options.run + "' contradict each other: give one of them");
  std::error_code ignored;
  if (folder.ends_with(".ini") && std::filesystem::is_regular_file(folder, ignored))
    throw UserError("DIR '" + folder + "' is a file, and the folder of the run is needed; did you mean --config " +
                    shell_word(folder) + "?");
  options.run = folder;
}

// Those of the config file, and above them those of the command line.
SettingsLayers run_settings(const TrainOptions& options, const CommandLine& line) {
  SettingsLayers layers;
  if (!options.config.empty()) layers.push_back(read_run_settings(options.config));
  Settings& typed = layers.emplace_back(SettingsLayer{.settings = line.settings, .name = kCommandLine}).settings;
  if (!options.seed.empty()) typed.emplace_back("run.seed", options.seed);
  if (!options.device.empty()) typed.emplace_back("run.device", options.device);
  if (!options.on_nan.empty()) typed.emplace_back("run.on_nan", options.on_nan);
  return layers;
}

void print_train_help(const OptionList& own, const SettingsLayers& settings) {
  Config config = Config::from_layers(settings);
  std::cout << help_head({"engram train DIR [--config FILE] [--seed S] [--section.key value ...]",
                          "engram train DIR --seeds 1-4 [--config FILE] [--section.key value ...]",
                          "engram train --resume DIR [--section.key value ...]",
                          "engram train DIR --adapt AGENT [--config FILE] [--seed S] [--section.key value ...]"},
                         {"Trains an agent on a memory task with discrete soft actor-critic. Settings come from the "
                          "defaults, the config file and the command line, each overriding the ones before; a preset "
                          "gives way to the other settings of its own place alone."})
            << "The command's own options\n";
  print_options(std::cout, own);
  const auto one_of = [](const std::vector<std::string>& names, const std::string& otherwise) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : " | ") + name;
    return "[" + text + "; default " + otherwise + "]";
  };
  std::cout << "\nWhat to train (engram list tells more)\n";
  print_option(std::cout, "task.name", one_of(task_names(), "visual_match"));
  print_option(std::cout, "task.preset", "a published size of a task, by name");
  print_option(std::cout, "memory.name", one_of(backbone_names(), "hqlt"));
  print_option(std::cout, "learner.name", one_of(learner_names(), "sac"));
  print_option(std::cout, "learner.preset", "published settings of a learner and of the rest with it, by name");

  const std::vector<std::pair<std::string, std::string>> titles = {
      {"run", "The run"},
      {"task", "The task " + config.task.name() + " (give --task.name for another one's options)"},
      {"network", "Encoder and heads"},
      {"memory", "The backbone " + config.memory.name() + " (give --memory.name for another one's options)"},
      {"adapters", "Adapters, with --adapt"},
      {"learner", "The learner " + config.learner.name() + " (give --learner.name for another one's options)"},
      {"replay", "Replay of whole episodes"},
      {"evaluation", "Evaluation"},
      {"checkpoint", "Checkpoints, to go on from"}};
  const OptionList all = config.options();
  for (const auto& [section, title] : titles) {
    std::cout << "\n" << wrapped(title, 2) << "\n";
    print_options(std::cout, all, section);
  }
  std::cout
      << "\n"
      << wrapped("Config file: the same keys as INI, [section] and then key = value; # begins a comment.", 0) << "\n"
      << wrapped("Whole numbers: 2000000, 2e6 and 2M are the same. Names of options: \"-\" and \"_\" are the same.", 0)
      << "\n\n"
      << wrapped(
             "Ranks: torchrun --nproc-per-node N --no-python engram train ..., or srun of N tasks, is one run by N "
             "programs, on CPUs or with a GPU each (docs/use/ranks.md).",
             0)
      << "\n\n"
      << wrapped(
             "Signals: SIGINT, SIGTERM, SIGHUP and a closed pipe behind the standard output save and leave with status "
             "130, 143, 129 or 141, a second SIGINT or SIGTERM at once; SIGUSR1 saves and goes on.",
             0)
      << "\n\n"
         "Examples\n  engram train runs/first --task.name tmaze --memory.name lstm \\\n"
         "    --learner.alpha 0.01\n"
         "  engram train --resume runs/first --run.steps 4M\n";
}

// LibTorch warns of everything that it cannot tidy up after a device has failed: the failure is what matters.
class CleanUpWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("CUDA warning") == std::string::npos) c10::WarningHandler::process(warning);
  }
};

// Trains as one of several ranks. A rank that fails tells the others why, and says so itself; of one that is lost
// without a word the first of the rest speaks. Returns the exit status.
int train_as_one_of(const std::shared_ptr<Ranks>& ranks, const std::function<Start()>& find,
                    const std::string& directory, const std::vector<std::string>& arguments) {
  std::optional<RunDirectory> run;
  std::optional<Config> config;
  const std::string who = ranks->name() + ": ";
  try {
    Start start = find();
    config = start.config;
    const TrainCall call{directory, arguments, ranks, std::cout, terminal_width(STDOUT_FILENO)};
    return exit_status(ranks->first() ? train(start, call, run) : train_along(start, ranks));
  } catch (const RankLost& lost) {
    if (!ranks->first() && (lost.said_why() || lost.rank() != 0)) return 1;
    throw std::runtime_error(lost.what() + how_to_go_on(run));
  } catch (const UserError& error) {
    ranks->say_failure(error.what());
    if (!ranks->first()) return 2;  // the first meets the same input, or is told
    throw UserError(who + error.what());
  } catch (const std::exception& error) {
    const RunFailure failure = config ? failure_of(error, *config) : RunFailure{FailureKind::kError, error.what()};
    ranks->say_failure(failure.reason);
    throw RunFailed({failure.kind, who + failure.reason + how_to_go_on(run)});
  }
}

int train_alone(const std::function<Start()>& find, const TrainOptions& options,
                const std::vector<std::string>& arguments) {
  for (;;) {
    Start start = find();
    const bool is_new = !start.run;
    std::optional<RunDirectory> run;
    try {
      const TrainCall call{options.run, arguments, std::make_shared<Ranks>(), std::cout, terminal_width(STDOUT_FILENO)};
      return exit_status(train(start, call, run));
    } catch (const UserError&) {
      // Another program may have begun the run meanwhile: then it is one to go on with.
      if (!is_new || run || options.resume != "auto" || !RunDirectory::is_run(options.run)) throw;
    } catch (const std::exception& error) {
      const auto [kind, reason] = failure_of(error, start.config);
      throw RunFailed({kind, reason + how_to_go_on(run)});
    }
  }
}

}  // namespace

void describe_train(const CommandVisitor& visit) { describe_options<TrainOptions>("train", train_syntax(), visit); }

int run_train(const std::vector<std::string>& arguments) {
  TrainOptions options;
  OptionList own = own_options(options);
  const CommandLine line = parse_command_line(arguments, own, train_syntax());
  take_folder(options, line);
  const SettingsLayers settings = run_settings(options, line);
  if (line.help) {
    print_train_help(own, settings);
    return 0;
  }
  take_signals();

  CleanUpWarnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  const auto ranks = std::make_shared<Ranks>(launch_of([](const char* name) { return std::getenv(name); }));
  if (!options.seeds.empty()) {
    if (!ranks->alone()) throw UserError("--seeds '" + options.seeds + "' and several ranks contradict each other");
    if (const std::string* const seed = value_of(settings.back().settings, "run.seed"); seed != nullptr)
      throw UserError("--seeds '" + options.seeds + "' and run.seed '" + *seed + "' contradict each other");
    return train_seeds(options, arguments, [&](const TrainOptions& own_options, const std::string& seed) {
      SettingsLayers own_settings = settings;
      own_settings.back().settings.emplace_back("run.seed", seed);
      return find_start(*ranks, own_options, own_settings);
    });
  }
  const auto find = [&] { return find_start(*ranks, options, settings); };
  return ranks->alone() ? train_alone(find, options, arguments) : train_as_one_of(ranks, find, options.run, arguments);
}

}  // namespace engram
