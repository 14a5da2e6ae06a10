// engram train: trains an agent and keeps everything in a run directory.
#include <c10/util/Exception.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
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
#include "base/error.h"
#include "experiments/experiment.h"
#include "nn/device.h"
#include "storage/checkpoint.h"
#include "storage/settings.h"

namespace engram {
namespace {

struct TrainOptions {
  std::string config;
  std::string run;
  std::string resume;
  std::string adapt;
  std::string seed;
  std::string device;
  std::string on_nan;

  void list_options(OptionList& list) {
    list.add("run", run, "folder for everything that the run leaves behind, new or empty; the same as DIR");
    list.add("resume", resume,
             "folder of a run to go on with, from its newest checkpoint; auto: go on with DIR if it was begun, else "
             "begin it");
    list.add("adapt", adapt,
             "folder of a run whose agent this one adapts, with its config and its best weights, to another size of "
             "its task");
    list.add("config", config, "INI file with the settings that differ from the defaults");
    list.add("seed", seed, "short for --run.seed");
    list.add("device", device, "short for --run.device");
    list.add("on-nan", on_nan, "short for --run.on_nan");
  }
};

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
  std::cout << "\n"
            << wrapped("Config file: the same keys as INI, [section] and then key = value; # begins a comment.", 0)
            << "\n"
            << wrapped(
                   "Whole numbers: 2000000, 2e6 and 2M are the same. Names of options: \"-\" and \"_\" are the same.",
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

// What to train, where, and from where on.
struct Start {
  Config config;
  std::optional<RunDirectory> run;  // none: a new one
  bool over = false;                // the run was begun and has saved nothing
  std::optional<Checkpoint> checkpoint;
  StartingWeights first_weights;  // none: a fresh network's, or the checkpoint's
};

// Sets what a run from its beginning is.
void begin(Start& start, const TrainOptions& options, const Settings& settings) {
  if (!options.adapt.empty()) {
    AgentToAdapt agent = load_agent_to_adapt(options.adapt, settings);
    start.config = std::move(agent.config);
    start.first_weights = {std::move(agent.weights), "weights file '" + agent.file.string() + "'"};
    return;
  }
  start.config = Config::from_settings(settings);
  if (start.config.adapters.rank > 0)
    throw UserError("adapters.rank " + std::to_string(start.config.adapters.rank) +
                    " adapts a trained agent; --adapt DIR names the folder of its run");
}

Start find_start(const TrainOptions& options, const Settings& settings) {
  const bool automatic = options.resume == "auto";
  if (options.run.empty() && (options.resume.empty() || automatic))
    throw UserError("the argument DIR (or --run DIR) is missing: the folder for everything that the run leaves behind");
  if (!automatic && !options.resume.empty() && !options.run.empty() && options.run != options.resume)
    throw UserError("--resume '" + options.resume + "' and the run folder '" + options.run +
                    "' are two folders; give one");
  if (!automatic && !options.resume.empty() && !options.adapt.empty())
    throw UserError("--adapt '" + options.adapt + "' begins a run and --resume '" + options.resume +
                    "' goes on with one; give one");
  const std::string folder = automatic || options.resume.empty() ? options.run : options.resume;
  std::error_code ignored;
  if (!options.adapt.empty() && std::filesystem::equivalent(options.adapt, folder, ignored))
    throw UserError("--adapt '" + options.adapt + "' is the folder of the run itself; name another one for the run");
  Start start;
  if (options.resume.empty() || (automatic && !RunDirectory::is_run(folder))) {
    begin(start, options, settings);
    return start;
  }

  start.run = RunDirectory::open_to_write(folder);
  start.checkpoint = load_newest_checkpoint(start.run->checkpoints_folder(), [](const std::string& damage) {
    std::cerr << "engram: " << damage << "; going on from an older one" << std::endl;
  });
  if (!start.checkpoint) {
    if (!automatic) throw UserError("run directory '" + folder + "' has no checkpoint to go on from");
    start.over = true;
    begin(start, options, settings);
    return start;
  }
  const std::string where = "run '" + folder + "'";
  Config saved = Config::from_settings(start.checkpoint->config);
  Settings all = read_settings(start.run->config_file());
  all.insert(all.end(), settings.begin(), settings.end());
  check_same_choices(saved, all, where);
  start.config = Config::from_settings(all);
  check_same_run(saved, start.config, where);
  // Environments step together: a finished run may have done a few steps more than its total.
  const std::int64_t done = start.checkpoint->steps, total = start.config.run.steps;
  if (total < done && total != saved.run.steps)
    throw UserError(where + " has done " + std::to_string(done) + " steps already and cannot end after run.steps " +
                    std::to_string(total) + "; it takes " + std::to_string(done) + " or more");
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

// `run`: set as soon as there is one.
void train(Start& start, const std::string& directory, const std::vector<std::string>& arguments,
           std::optional<RunDirectory>& run) {
  Config& config = start.config;
  const torch::Device device = use_device(config.run.device);
  const Threads threads = training_threads(config, device);
  wait_passively(threads, arguments);
  use_threads(threads.count);
  if (config.run.precision == Precision::kBfloat16 && !device.is_cuda())
    throw UserError("run.precision bfloat16 is for GPUs; on the CPU take float32 or auto");
  Trainer trainer(config, device, threads.count, start.first_weights);
  const std::vector<Road> roads = roads_of(config, trainer.network(), device);
  check_kernels(config, roads);
  StateArchive* const state = start.checkpoint ? &start.checkpoint->state : nullptr;
  if (state != nullptr) trainer.restore(*state);

  std::vector<std::string> command_line = {"engram", "train"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  const std::vector<RunFact> facts = config.task.run_facts(config.run.seed);
  run = start.run ? *start.run : RunDirectory::create(directory, config.to_ini(), device, command_line, roads, facts);
  if (start.over) run->start_over(config.to_ini(), device, command_line, roads, facts);
  start.run.reset();
  RunRecorder recorder(*run, config.to_ini(), config.checkpoint.keep, state);
  if (state != nullptr) {
    state->check_all_restored();
    run->record_resume(config.to_ini(), start.checkpoint->file, device, command_line, roads, facts);
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
        << threads.text() << ") in " << run->path().string();
  if (state != nullptr)
    title << ", from step " << trainer.status().steps << " of " << start.checkpoint->file.filename().string();
  if (!start.first_weights.tensors.empty()) title << ", from " << start.first_weights.where;
  display.say(title.str());
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
  for (bool again = true; again;) {
    again = false;
    Start start = naming_line(options.config, typed, [&] { return find_start(options, settings); });
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
