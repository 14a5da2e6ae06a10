// engram train: trains an agent and keeps everything in a run directory.
#include <c10/util/Exception.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "agents/device_failure.h"
#include "agents/run_recorder.h"
#include "agents/trained_agent.h"
#include "agents/trainer.h"
#include "apps/command_line.h"
#include "apps/commands.h"
#include "apps/status_display.h"
#include "base/error.h"

namespace engram {
namespace {

struct TrainOptions {
  std::string config;
  std::string run;
  std::string seed;
  std::string device;

  void list_options(OptionList& list) {
    list.add("run", run, "folder for everything that the run leaves behind; must be new or empty");
    list.add("config", config, "INI file with the settings that differ from the defaults");
    list.add("seed", seed, "short for --run.seed");
    list.add("device", device, "short for --run.device");
  }
};

Settings gather_settings(const TrainOptions& options, const CommandLine& line) {
  Settings settings = options.config.empty() ? Settings{} : read_settings(options.config);
  settings.insert(settings.end(), line.settings.begin(), line.settings.end());
  if (!options.seed.empty()) settings.emplace_back("run.seed", options.seed);
  if (!options.device.empty()) settings.emplace_back("run.device", options.device);
  return settings;
}

void print_help(const OptionList& own, const Settings& settings) {
  Config config = Config::from_settings(settings);
  std::cout << "engram train --run DIR [--config FILE] [--seed S] [--section.key value ...]\n\n"
            << wrapped(
                   "Trains an agent on a memory task with discrete soft actor-critic. Settings come from the defaults, "
                   "the task's preset, the config file and the command line, each overriding the ones before.",
                   0)
            << "\n\nThe command's own options\n";
  print_options(std::cout, own);
  std::string names;
  for (const std::string& name : task_names()) names += (names.empty() ? "" : " | ") + name;
  std::cout << "\nWhat to train (engram list tells more)\n"
            << "  --task.name                     " << wrapped("[" + names + "; default visual_match]", 34) << "\n"
            << "  --task.preset                   " << wrapped("a published size of a task, by name", 34) << "\n";
  names.clear();
  for (const std::string& name : backbone_names()) names += (names.empty() ? "" : " | ") + name;
  std::cout << "  --memory.name                   " << wrapped("[" + names + "; default hqlt]", 34) << "\n";

  const std::vector<std::pair<std::string, std::string>> titles = {
      {"run", "The run"},
      {"task", "The task " + config.task.name() + " (give --task.name for another one's options)"},
      {"network", "Encoder and heads"},
      {"memory", "The backbone " + config.memory.name() + " (give --memory.name for another one's options)"},
      {"learner", "Soft actor-critic"},
      {"replay", "Replay of whole episodes"},
      {"evaluation", "Evaluation during training"}};
  const OptionList all = config.options();
  for (const auto& [section, title] : titles) {
    std::cout << "\n" << title << "\n";
    print_options(std::cout, all, section);
  }
  std::cout << "\nConfig file: the same keys as INI, [section] and then key = value; # begins a comment.\n\n"
               "Example\n  engram train --task.name tmaze --memory.name lstm --learner.alpha 0.01 --run runs/first\n";
}

// Ctrl-C ends the run in good order; the handler may touch nothing but the trainer's flag.
Trainer* g_running = nullptr;
void stop_running(int) {
  g_running->stop();
  std::signal(SIGINT, SIG_DFL);  // a second Ctrl-C ends at once
}

// `run`: set as soon as there is one.
void train(Config config, const std::string& directory, const std::vector<std::string>& arguments,
           std::optional<RunDirectory>& run) {
  const torch::Device device = parse_device(config.run.device);
  const int threads = use_threads(config.run.threads);
  if (config.run.precision == Precision::kBfloat16 && !device.is_cuda())
    throw UserError("run.precision bfloat16 is for GPUs; on the CPU take float32 or auto");
  Trainer trainer(config, device, threads);

  std::vector<std::string> command_line = {"engram", "train"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  run = RunDirectory::create(directory, config, device, command_line);
  RunRecorder recorder(*run, config.to_ini());
  StatusDisplay display(std::cout, isatty(STDOUT_FILENO) != 0);

  std::cout << "Training " << config.memory.name() << " on " << config.task.name() << " for "
            << count_text(static_cast<double>(config.run.steps)) << " steps (" << device_text(device) << ", " << threads
            << " CPU threads, " << trainer.acts_in() << ") in " << run->path().string() << std::endl;
  g_running = &trainer;
  std::signal(SIGINT, stop_running);
  const TrainStatus status = trainer.run({&recorder, &display});
  std::signal(SIGINT, SIG_DFL);

  const std::string folder = run->path().string();
  const char* const weights = status.best_evaluation ? "" : " --weights last";  // nothing was evaluated
  std::cout << "Everything is in " << folder << ". What next:\n"
            << "  engram evaluate " << folder << weights << "\n"
            << "  engram render " << folder << weights << " --output " << (run->path() / "episodes.mp4").string()
            << "\n"
            << "  tensorboard --logdir " << folder << std::endl;
}

// LibTorch warns of everything that it cannot tidy up behind a device that has failed: the failure is what matters.
class CleanUpWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("CUDA warning") == std::string::npos) c10::WarningHandler::process(warning);
  }
};

// Behind a message about a run that failed.
std::string where_weights_are(const std::optional<RunDirectory>& run) {
  if (!run || !std::filesystem::exists(run->weights_file(WhichWeights::kLast))) return "";
  return "; the weights of the last evaluation are in " + run->weights_file(WhichWeights::kLast).string();
}

}  // namespace

int run_train(const std::vector<std::string>& arguments) {
  TrainOptions options;
  OptionList own("");
  options.list_options(own);
  const CommandLine line = parse_command_line(arguments, own, {.setting_keys = all_config_keys()});
  const Settings settings = gather_settings(options, line);
  if (line.help) {
    print_help(own, settings);
    return 0;
  }
  if (options.run.empty())
    throw UserError("--run DIR is missing: the folder for everything that the run leaves behind");

  const Config config = Config::from_settings(settings);
  std::optional<RunDirectory> run;
  CleanUpWarnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  try {
    train(config, options.run, arguments, run);
  } catch (const std::exception& error) {
    const std::optional<std::string> failure = device_failure(error, config);
    if (!failure) throw;
    throw std::runtime_error(*failure + where_weights_are(run));
  }
  return 0;
}

}  // namespace engram
