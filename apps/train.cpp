// engram train: trains an agent and keeps everything in a run directory.
#include <c10/util/Exception.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "agents/checkpoint.h"
#include "agents/device_failure.h"
#include "agents/hyperparameters.h"
#include "agents/run_recorder.h"
#include "agents/trained_agent.h"
#include "agents/trainer.h"
#include "apps/command_line.h"
#include "apps/commands.h"
#include "apps/final_film.h"
#include "apps/status_display.h"
#include "base/error.h"

namespace engram {
namespace {

struct TrainOptions {
  std::string config;
  std::string run;
  std::string resume;
  std::string seed;
  std::string device;
  std::string on_nan;

  void list_options(OptionList& list) {
    list.add("run", run, "folder for everything that the run leaves behind; must be new or empty");
    list.add("resume", resume,
             "folder of a run to go on with, from its newest checkpoint; auto: go on with --run if it was begun, else "
             "begin it");
    list.add("config", config, "INI file with the settings that differ from the defaults");
    list.add("seed", seed, "short for --run.seed");
    list.add("device", device, "short for --run.device");
    list.add("on-nan", on_nan, "short for --run.on_nan");
  }
};

Settings gather_settings(const TrainOptions& options, const CommandLine& line) {
  Settings settings = options.config.empty() ? Settings{} : read_settings(options.config);
  settings.insert(settings.end(), line.settings.begin(), line.settings.end());
  if (!options.seed.empty()) settings.emplace_back("run.seed", options.seed);
  if (!options.device.empty()) settings.emplace_back("run.device", options.device);
  if (!options.on_nan.empty()) settings.emplace_back("run.on_nan", options.on_nan);
  return settings;
}

void print_help(const OptionList& own, const Settings& settings) {
  Config config = Config::from_settings(settings);
  std::cout << "engram train --run DIR [--config FILE] [--seed S] [--section.key value ...]\n"
               "engram train --resume DIR [--section.key value ...]\n\n"
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
      {"evaluation", "Evaluation"},
      {"checkpoint", "Checkpoints, to go on from"}};
  const OptionList all = config.options();
  for (const auto& [section, title] : titles) {
    std::cout << "\n" << title << "\n";
    print_options(std::cout, all, section);
  }
  std::cout << "\nConfig file: the same keys as INI, [section] and then key = value; # begins a comment.\n\n"
            << wrapped(
                   "Signals: SIGINT and SIGTERM save and leave with status 130 or 143, a second one at once; SIGUSR1 "
                   "saves and goes on.",
                   0)
            << "\n\n"
               "Examples\n  engram train --task.name tmaze --memory.name lstm --learner.alpha 0.01 --run runs/first\n"
               "  engram train --resume runs/first --run.steps 4000000\n";
}

// The handlers may touch nothing but the trainer's flags and this.
Trainer* g_running = nullptr;
volatile std::sig_atomic_t g_stopped_by = 0;

void handle_stop(int signal) {
  g_stopped_by = signal;
  g_running->stop();
}
void handle_save(int) {
  if (g_running != nullptr) g_running->save_soon();
}

void set_handler(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | flags;
  sigaction(signal, &action, nullptr);
}

// While it lives, SIGINT and SIGTERM end the run in good order, and the second of them at once.
class StopSignals {
 public:
  explicit StopSignals(Trainer& trainer) {
    g_running = &trainer;
    for (const int signal : {SIGINT, SIGTERM}) set_handler(signal, handle_stop, SA_RESETHAND);
  }
  ~StopSignals() {
    for (const int signal : {SIGINT, SIGTERM}) set_handler(signal, SIG_DFL);
    g_running = nullptr;
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

// What to train, where, and from where on.
struct Start {
  Config config;
  std::optional<RunDirectory> run;  // none: a new one
  bool over = false;                // the run was begun and has saved nothing
  std::optional<Checkpoint> checkpoint;
};

Start find_start(const TrainOptions& options, const Settings& settings) {
  const bool automatic = options.resume == "auto";
  if (options.run.empty() && (options.resume.empty() || automatic))
    throw UserError("--run DIR is missing: the folder for everything that the run leaves behind");
  if (!automatic && !options.resume.empty() && !options.run.empty() && options.run != options.resume)
    throw UserError("--resume '" + options.resume + "' and --run '" + options.run + "' are two folders; give one");
  const std::string folder = automatic || options.resume.empty() ? options.run : options.resume;
  if (options.resume.empty() || (automatic && !RunDirectory::is_run(folder)))
    return {.config = Config::from_settings(settings), .run = {}, .checkpoint = {}};

  Start start;
  start.run = RunDirectory::open_to_write(folder);
  start.checkpoint = load_newest_checkpoint(start.run->checkpoints_folder(), [](const std::string& damage) {
    std::cerr << "engram: " << damage << "; going on from an older one" << std::endl;
  });
  if (!start.checkpoint) {
    if (!automatic) throw UserError("run directory '" + folder + "' has no checkpoint to go on from");
    start.over = true;
    start.config = Config::from_settings(settings);
    return start;
  }
  const std::string where = "run '" + folder + "'";
  Config saved = Config::from_settings(start.checkpoint->config);
  Settings all = read_settings(start.run->config_file());
  all.insert(all.end(), settings.begin(), settings.end());
  check_same_choices(saved, all, where);
  start.config = Config::from_settings(all);
  check_same_run(saved, start.config, where);
  return start;
}

void print_end(const RunDirectory& run, const TrainStatus& status) {
  const std::string folder = run.path().string();
  if (g_stopped_by != 0) {
    std::cout << "Stopped by " << (g_stopped_by == SIGINT ? "SIGINT" : "SIGTERM")
              << ". To go on:\n  engram train --resume " << folder << std::endl;
    return;
  }
  const char* const weights = status.best_evaluation ? "" : " --weights last";  // nothing was evaluated
  std::cout << "Everything is in " << folder << ". What next:\n"
            << "  engram evaluate " << folder << weights << "\n"
            << "  engram render " << folder << weights << " --output " << (run.path() / "episodes.mp4").string() << "\n"
            << "  tensorboard --logdir " << folder << std::endl;
}

// `run`: set as soon as there is one.
void train(Start& start, const std::string& directory, const std::vector<std::string>& arguments,
           std::optional<RunDirectory>& run) {
  Config& config = start.config;
  const torch::Device device = parse_device(config.run.device);
  const int threads = use_threads(config.run.threads);
  if (config.run.precision == Precision::kBfloat16 && !device.is_cuda())
    throw UserError("run.precision bfloat16 is for GPUs; on the CPU take float32 or auto");
  Trainer trainer(config, device, threads);
  StateArchive* const state = start.checkpoint ? &start.checkpoint->state : nullptr;
  if (state != nullptr) trainer.restore(*state);

  std::vector<std::string> command_line = {"engram", "train"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  run = start.run ? *start.run : RunDirectory::create(directory, config, device, command_line);
  if (start.over) run->start_over(config, device, command_line);
  start.run.reset();
  RunRecorder recorder(*run, config.to_ini(), config.checkpoint.keep, state);
  if (state != nullptr) {
    state->check_all_restored();
    run->record_resume(config, start.checkpoint->file, device, command_line);
    if (const auto& best = trainer.status().best_evaluation) recorder.write_best(*best, trainer.best_weights());
  } else {
    recorder.write_hyperparameters(hyperparameters(config));
  }
  StatusDisplay display(std::cout, isatty(STDOUT_FILENO) != 0);

  std::cout << (state != nullptr ? "Going on with " : "Training ") << config.memory.name() << " on "
            << config.task.name() << " for " << count_text(static_cast<double>(config.run.steps)) << " steps ("
            << device_text(device) << ", " << threads << " CPU threads, " << trainer.acts_in() << ") in "
            << run->path().string();
  if (state != nullptr)
    std::cout << ", from step " << trainer.status().steps << " of " << start.checkpoint->file.filename().string();
  std::cout << std::endl;
  start.checkpoint.reset();  // its tensors are of no more use
  TrainStatus status;
  {
    const StopSignals signals(trainer);
    status = trainer.run({&recorder, &display});
  }
  if (status.final_evaluation)
    if (const auto film = film_final_evaluation(run->path()))
      recorder.write_film(status, film->width, film->height, film->gif);
  print_end(*run, status);
}

// LibTorch warns of everything that it cannot tidy up behind a device that has failed: the failure is what matters.
class CleanUpWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("CUDA warning") == std::string::npos) c10::WarningHandler::process(warning);
  }
};

// Behind a message about a run that failed; the folder may be what failed.
std::string how_to_go_on(const std::optional<RunDirectory>& run) {
  if (!run) return "";
  std::string text = "; go on with engram train --resume " + run->path().string();
  try {
    const auto files = list_checkpoints(run->checkpoints_folder());
    if (!files.empty()) text += ", from " + files.back().filename().string();
  } catch (const std::exception&) {
  }
  return text;
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
  set_handler(SIGUSR1, handle_save);

  CleanUpWarnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  for (bool again = true; again;) {
    again = false;
    Start start = find_start(options, settings);
    const bool is_new = !start.run;
    std::optional<RunDirectory> run;
    try {
      train(start, options.run, arguments, run);
    } catch (const UserError&) {
      // Another program may have begun the run meanwhile: then it is one to go on with.
      again = is_new && !run && options.resume == "auto" && RunDirectory::is_run(options.run);
      if (!again) throw;
    } catch (const std::exception& error) {
      throw std::runtime_error(device_failure(error, start.config).value_or(error.what()) + how_to_go_on(run));
    }
  }
  constexpr int kSignalStatus = 128;  // as a shell reports a program that a signal ended
  return g_stopped_by != 0 ? kSignalStatus + g_stopped_by : 0;
}

}  // namespace engram
