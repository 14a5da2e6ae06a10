// engram train: trains an agent and keeps everything in a run directory.
#include <c10/util/Exception.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "agents/device_failure.h"
#include "agents/hardware.h"
#include "agents/hyperparameters.h"
#include "agents/roads.h"
#include "agents/run_recorder.h"
#include "agents/trained_agent.h"
#include "agents/trainer.h"
#include "apps/command_line.h"
#include "apps/commands.h"
#include "apps/final_film.h"
#include "apps/run_advice.h"
#include "apps/status_display.h"
#include "apps/train_start.h"
#include "base/error.h"
#include "experiments/experiment.h"
#include "nn/device.h"
#include "ranks/ranks.h"
#include "storage/checkpoint.h"
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

// The settings of a run's config file.
Settings read_run_settings(const std::string& file) {
  Settings settings = read_settings(file);
  if (const std::string sections = experiment_sections(settings); !sections.empty())
    throw UserError(config_file_text(file) + " has " + sections +
                    ", the sections of a comparison: it is for engram compare --config " + file);
  return settings;
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
                    folder + "?");
  options.run = folder;
}

// Those of the command line, which win over the config file's.
Settings typed_settings(const TrainOptions& options, const CommandLine& line) {
  Settings settings = line.settings;
  if (!options.seed.empty()) settings.emplace_back("run.seed", options.seed);
  if (!options.device.empty()) settings.emplace_back("run.device", options.device);
  if (!options.on_nan.empty()) settings.emplace_back("run.on_nan", options.on_nan);
  return settings;
}

void print_help(const OptionList& own, const Settings& settings) {
  Config config = Config::from_settings(settings);
  std::cout << wrapped("engram train DIR [--config FILE] [--seed S] [--section.key value ...]", 2) << "\n"
            << "engram train --resume DIR [--section.key value ...]\n"
            << wrapped("engram train DIR --adapt AGENT [--config FILE] [--seed S] [--section.key value ...]", 2)
            << "\n\n"
            << wrapped(
                   "Trains an agent on a memory task with discrete soft actor-critic. Settings come from the defaults, "
                   "the task's preset, the config file and the command line, each overriding the ones before.",
                   0)
            << "\n\nThe command's own options\n";
  print_options(std::cout, own);
  std::string names;
  for (const std::string& name : task_names()) names += (names.empty() ? "" : " | ") + name;
  std::cout << "\nWhat to train (engram list tells more)\n";
  print_option(std::cout, "task.name", "[" + names + "; default visual_match]");
  print_option(std::cout, "task.preset", "a published size of a task, by name");
  names.clear();
  for (const std::string& name : backbone_names()) names += (names.empty() ? "" : " | ") + name;
  print_option(std::cout, "memory.name", "[" + names + "; default hqlt]");

  const std::vector<std::pair<std::string, std::string>> titles = {
      {"run", "The run"},
      {"task", "The task " + config.task.name() + " (give --task.name for another one's options)"},
      {"network", "Encoder and heads"},
      {"memory", "The backbone " + config.memory.name() + " (give --memory.name for another one's options)"},
      {"adapters", "Adapters, with --adapt"},
      {"learner", "Soft actor-critic"},
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
             "programs, on CPUs or with a GPU each (docs/ranks.md).",
             0)
      << "\n\n"
      << wrapped(
             "Signals: SIGINT and SIGTERM save and leave with status 130 or 143, a second one at once; SIGUSR1 "
             "saves and goes on.",
             0)
      << "\n\n"
         "Examples\n  engram train runs/first --task.name tmaze --memory.name lstm \\\n"
         "    --learner.alpha 0.01\n"
         "  engram train --resume runs/first --run.steps 4M\n";
}

// The handlers may touch nothing but the trainer's flags and this.
Trainer* g_running = nullptr;
volatile std::sig_atomic_t g_stopped_by = 0;
volatile std::sig_atomic_t g_asked_by_parent = 0, g_asked_by_another = 0;

// A batch system signals every process of a job, and `engram compare` passes on what it got itself: the two are one
// request. Only who has asked before asks a second time.
void handle_stop(int signal, siginfo_t* sender, void*) {
  volatile std::sig_atomic_t& asked = sender->si_pid == ::getppid() ? g_asked_by_parent : g_asked_by_another;
  if (asked != 0) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // takes effect when this returns
    return;
  }
  asked = 1;
  g_stopped_by = signal;
  g_running->stop();
}
void handle_save(int) {
  if (g_running != nullptr) g_running->save_soon();
}

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}
void set_handler(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigaction(signal, &action, nullptr);
}

// While it lives, SIGINT and SIGTERM end the run in good order, and the second of a sender at once.
class StopSignals {
 public:
  explicit StopSignals(Trainer& trainer) {
    g_running = &trainer;
    g_asked_by_parent = g_asked_by_another = 0;
    for (const int signal : {SIGINT, SIGTERM}) set_handler(signal, handle_stop);
  }
  ~StopSignals() {
    for (const int signal : {SIGINT, SIGTERM}) set_handler(signal, SIG_DFL);
    g_running = nullptr;
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

// As a shell reports a program that a signal ended.
int exit_status(const TrainStatus& status) {
  constexpr int kSignalStatus = 128;
  if (status.stopped != StopReason::kRequest) return 0;
  return kSignalStatus + (g_stopped_by != 0 ? g_stopped_by : SIGTERM);
}

void print_end(const RunDirectory& run, const TrainStatus& status) {
  const std::string folder = run.path().string();
  if (status.stopped == StopReason::kRequest) {
    const int signal = g_stopped_by;
    std::cout << "Stopped by "
              << (signal == SIGINT    ? "SIGINT"
                  : signal == SIGTERM ? "SIGTERM"
                                      : "a signal to another rank")
              << ". To go on:\n  engram train --resume " << folder << std::endl;
    return;
  }
  const char* const weights = status.best_evaluation ? "" : " --weights last";  // nothing was evaluated
  std::cout << "Everything is in " << folder << ". What next:\n"
            << "  engram evaluate " << folder << weights << "\n"
            << "  engram render " << folder << weights << " --output " << (run.path() / "episodes.mp4").string() << "\n"
            << "  tensorboard --logdir " << folder << std::endl;
}

std::string ranks_text(int ranks) { return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"); }

std::string facts_text(const std::vector<RunFact>& facts) {
  std::string text;
  for (const RunFact& fact : facts)
    text += (text.empty() ? "  drawn once for the run: " : "; ") + fact.name + " = " + fact.text;
  return text;
}

// Where the rule has chosen several threads they shall leave their processor to others while they wait for each other
// (hardware.cpp has figures). libgomp reads how to wait when it is loaded, so the program starts once more, as the same
// process, unless the environment says it already. What is locked or open is closed by that.
void wait_passively(const Threads& threads, const std::vector<std::string>& arguments) {
  constexpr const char* kPolicy = "OMP_WAIT_POLICY";
  if (threads.count == 1 || *threads.reason == '\0' || std::getenv(kPolicy) != nullptr ||
      std::getenv("GOMP_SPINCOUNT") != nullptr)
    return;
  std::vector<std::string> words = {"engram", "train"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::setenv(kPolicy, "passive", 1);
  ::execv("/proc/self/exe", argv.data());
  throw std::runtime_error(std::string("the program cannot start itself again: ") + std::strerror(errno));
}

// What a rank computes on.
struct Place {
  torch::Device device;
  Threads threads;
};

Place place_of(const Config& config, Ranks& ranks) {
  const torch::Device device = use_device(config.run.device, ranks);
  return {device, training_threads(config, device, std::max(1, available_processors() / ranks.on_this_machine()))};
}

// A rank that is not the first: it leaves nothing behind and says nothing.
TrainStatus train_along(Start& start, const std::shared_ptr<Ranks>& ranks) {
  const auto [device, threads] = place_of(start.config, *ranks);
  use_threads(threads.count);
  Trainer trainer(start.config, device, threads.count, start.first_weights, ranks);
  if (start.checkpoint) trainer.restore(start.checkpoint->state);
  start.checkpoint.reset();
  const StopSignals signals(trainer);
  return trainer.run({});
}

// `run`: set as soon as there is one.
TrainStatus train(Start& start, const std::string& directory, const std::vector<std::string>& arguments,
                  const std::shared_ptr<Ranks>& ranks, std::optional<RunDirectory>& run) {
  Config& config = start.config;
  const auto [device, threads] = place_of(config, *ranks);
  if (ranks->alone()) wait_passively(threads, arguments);  // ranks that have met cannot meet again
  use_threads(threads.count);
  if (config.run.precision == Precision::kBfloat16 && !device.is_cuda())
    throw UserError("run.precision bfloat16 is for GPUs; on the CPU take float32 or auto");
  Trainer trainer(config, device, threads.count, start.first_weights, ranks);
  const std::vector<Road> roads = roads_of(config, trainer.network(), device);
  check_kernels(config, roads);
  StateArchive* const state = start.checkpoint ? &start.checkpoint->state : nullptr;
  if (state != nullptr) trainer.restore(*state);

  std::vector<std::string> command_line = {"engram", "train"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  const std::vector<RunFact> facts = config.task.run_facts(config.run.seed);
  const RunStart about{config.to_ini(), device, command_line, roads, facts, ranks->size()};
  run = start.run ? *start.run : RunDirectory::create(directory, about);
  if (start.over) run->start_over(about);
  start.run.reset();
  RunRecorder recorder(*run, config.to_ini(), config.checkpoint.keep, state);
  if (state != nullptr) {
    state->check_all_restored();
    run->record_resume(about, start.checkpoint->file);
    if (const auto& best = trainer.status().best_evaluation) recorder.write_best(*best, trainer.best_weights());
  } else {
    recorder.write_hyperparameters(hyperparameters(config));
  }
  const TerminalWidth width = terminal_width(STDOUT_FILENO);
  StatusDisplay display(std::cout, width);
  RunAdvice advice(std::cout, width != nullptr, device, config.run);

  std::ostringstream title;
  title << (state != nullptr ? "Going on with " : "Training ") << config.memory.name() << " on " << config.task.name()
        << " for " << count_text(static_cast<double>(config.run.steps)) << " steps (" << device_name(device) << ", "
        << (ranks->alone() ? "" : ranks_text(ranks->size()) + ", each ") << threads.text() << ") in "
        << run->path().string();
  if (state != nullptr)
    title << ", from step " << trainer.status().steps << " of " << start.checkpoint->file.filename().string();
  if (!start.first_weights.tensors.empty()) title << ", from " << start.first_weights.where;
  display.say(title.str());
  if (state != nullptr && trainer.restored_ranks() != ranks->size())
    display.say("  saved by " + ranks_text(trainer.restored_ranks()) + ": replay and environments are dealt anew to " +
                ranks_text(ranks->size()));
  if (!facts.empty()) display.say(facts_text(facts));
  if (device.is_cuda())  // on the CPU there is one road
    for (const Road& road : roads) display.say("  " + road_text(road));
  start.checkpoint.reset();  // its tensors are of no more use
  start.first_weights = {};
  TrainStatus status;
  {
    const StopSignals signals(trainer);
    status = trainer.run({&recorder, &advice, &display});
  }
  if (status.final_evaluation)
    if (const auto film = film_final_evaluation(run->path()))
      recorder.write_film(status, film->width, film->height, film->gif);
  print_end(*run, status);
  return status;
}

// LibTorch warns of everything that it cannot tidy up after a device has failed: the failure is what matters.
class CleanUpWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("CUDA warning") == std::string::npos) c10::WarningHandler::process(warning);
  }
};

// Follows a message about a run that failed; the folder itself may be what failed.
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
    return exit_status(ranks->first() ? train(start, directory, arguments, ranks, run) : train_along(start, ranks));
  } catch (const RankLost& lost) {
    if (!ranks->first() && (lost.said_why() || lost.rank() != 0)) return 1;
    throw std::runtime_error(lost.what() + how_to_go_on(run));
  } catch (const UserError& error) {
    ranks->say_failure(error.what());
    if (!ranks->first()) return 2;  // the first meets the same input, or is told
    throw UserError(who + error.what());
  } catch (const std::exception& error) {
    const std::string reason = (config ? device_failure(error, *config) : std::nullopt).value_or(error.what());
    ranks->say_failure(reason);
    throw std::runtime_error(who + reason + how_to_go_on(run));
  }
}

int train_alone(const std::function<Start()>& find, const TrainOptions& options,
                const std::vector<std::string>& arguments) {
  for (;;) {
    Start start = find();
    const bool is_new = !start.run;
    std::optional<RunDirectory> run;
    try {
      return exit_status(train(start, options.run, arguments, std::make_shared<Ranks>(), run));
    } catch (const UserError&) {
      // Another program may have begun the run meanwhile: then it is one to go on with.
      if (!is_new || run || options.resume != "auto" || !RunDirectory::is_run(options.run)) throw;
    } catch (const std::exception& error) {
      throw std::runtime_error(device_failure(error, start.config).value_or(error.what()) + how_to_go_on(run));
    }
  }
}

}  // namespace

void describe_train(const CommandVisitor& visit) { describe_options<TrainOptions>("train", train_syntax(), visit); }

int run_train(const std::vector<std::string>& arguments) {
  TrainOptions options;
  OptionList own("");
  options.list_options(own);
  const CommandLine line = parse_command_line(arguments, own, train_syntax());
  take_folder(options, line);
  const Settings typed = typed_settings(options, line);
  Settings settings = options.config.empty() ? Settings{} : read_run_settings(options.config);
  settings.insert(settings.end(), typed.begin(), typed.end());
  if (line.help) {
    naming_line(options.config, typed, [&] { print_help(own, settings); });
    return 0;
  }
  set_handler(SIGUSR1, handle_save);

  CleanUpWarnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  const auto ranks = std::make_shared<Ranks>(launch_of([](const char* name) { return std::getenv(name); }));
  const auto find = [&] {
    return naming_line(options.config, typed, [&] { return find_start(*ranks, options, settings); });
  };
  return ranks->alone() ? train_alone(find, options, arguments) : train_as_one_of(ranks, find, options.run, arguments);
}

}  // namespace engram
