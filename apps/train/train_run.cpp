#include "apps/train/train_run.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "agents/act/roads.h"
#include "agents/run/hardware.h"
#include "agents/run/hyperparameters.h"
#include "agents/run/memory_estimate.h"
#include "agents/run/run_recorder.h"
#include "agents/run/run_share.h"
#include "agents/run/trained_agent.h"
#include "apps/cli/status_display.h"
#include "apps/cli/stop_signals.h"
#include "apps/cli/taken_signals.h"
#include "apps/cli/threads.h"
#include "apps/train/final_film.h"
#include "apps/train/run_advice.h"
#include "base/error.h"
#include "base/words.h"
#include "nn/device/device.h"
#include "storage/checkpoint.h"

namespace engram {
namespace {

void print_end(std::ostream& out, const RunDirectory& run, const TrainStatus& status) {
  const std::string folder = shell_word(run.path().string());
  if (status.stopped == StopReason::kRequest) {
    const int signal = StopSignals::stopped_by();
    out << "Stopped by " << (signal != 0 ? signal_name(signal) : "a signal to another rank")
        << ". To go on:\n  engram train --resume " << folder << std::endl;
    return;
  }
  const char* const weights = status.best_evaluation ? "" : " --weights last";  // nothing was evaluated
  out << "Everything is in " << folder << ". What next:\n"
      << "  engram evaluate " << folder << weights << "\n"
      << "  engram render " << folder << weights << " --output " << shell_word((run.path() / "episodes.mp4").string())
      << "\n"
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

// What a rank computes on.
struct Place {
  torch::Device device;
  Threads threads;
};

// `at_once`: runs of this program. Throws UserError where they cannot fit into the device's memory.
Place place_of(const Config& config, Ranks& ranks, int at_once) {
  const torch::Device device = use_device(config.run.device, ranks);
  const RunShare share = share_of(config, ranks);
  Config own = config;
  own.replay = share.replay;
  own.run.num_envs = static_cast<int>(share.environments.count);
  check_memory_of_machine(own, device, device.is_cuda() ? at_once : at_once * ranks.on_this_machine());
  const int processors = available_processors() / (ranks.on_this_machine() * at_once);
  return {device, training_threads(config, device, std::max(1, processors))};
}

}  // namespace

void check_runs_fit(const Config& config, int at_once) {
  Ranks alone;
  place_of(config, alone, at_once);
}

TrainStatus train_along(Start& start, const std::shared_ptr<Ranks>& ranks) {
  const auto [device, threads] = place_of(start.config, *ranks, /*at_once=*/1);
  use_threads(threads.count);
  Trainer trainer(start.config, device, threads.count, start.first_weights, ranks);
  if (start.checkpoint) trainer.restore(start.checkpoint->state);
  start.checkpoint.reset();
  const StopSignals signals;
  const SignalledRun signalled(trainer);
  return trainer.run({});
}

TrainStatus train(Start& start, const TrainCall& call, std::optional<RunDirectory>& run) {
  Config& config = start.config;
  const std::shared_ptr<Ranks>& ranks = call.ranks;
  const auto [device, threads] = place_of(config, *ranks, call.at_once.value_or(1));
  // Ranks that have met cannot meet again, and runs beside each other have begun.
  if (ranks->alone() && !call.at_once) wait_passively(threads, call.arguments);
  use_threads(threads.count);
  const bool many = call.at_once.value_or(1) > available_processors();
  if (config.run.gpu_wait == GpuWait::kSleep || (config.run.gpu_wait == GpuWait::kAuto && many))
    sleep_while_waiting(device);
  std::optional<OwnStream> own_stream;
  if (call.at_once) own_stream.emplace(device);
  if (config.run.precision == Precision::kBfloat16 && !device.is_cuda())
    throw UserError("run.precision bfloat16 is for GPUs; on the CPU take float32 or auto");
  Trainer trainer(config, device, threads.count, start.first_weights, ranks);
  const std::vector<Road> roads = roads_of(config, trainer.network(), device);
  check_kernels(config, roads);
  StateArchive* const state = start.checkpoint ? &start.checkpoint->state : nullptr;
  if (state != nullptr) trainer.restore(*state);

  std::vector<std::string> command_line = {"engram", "train"};
  command_line.insert(command_line.end(), call.arguments.begin(), call.arguments.end());
  const std::vector<RunFact> facts = config.task.run_facts(config.run.seed);
  const RunStart about{config.to_ini(), device, command_line, roads, facts, ranks->size()};
  run = start.run ? *start.run : RunDirectory::create(call.directory, about);
  if (start.over) run->start_over(about);
  start.run.reset();
  RunRecorder recorder(*run, config.to_ini(), config.checkpoint.keep, state);
  if (state != nullptr) {
    state->check_all_restored();
    run->record_resume(about, start.checkpoint->file);
    if (const auto& best = trainer.status().best_evaluation) recorder.write_best(*best, trainer.best_weights());
  }
  if (recorder.lacks_hyperparameters()) recorder.write_hyperparameters(hyperparameters(config));
  StatusDisplay display(call.out, call.width);
  RunAdvice advice(call.out, call.width != nullptr, device, config);

  std::ostringstream title;
  title << (state != nullptr ? "Going on with " : "Training ") << config.memory.name() << " on " << config.task.name()
        << " for " << count_text(static_cast<double>(config.run.steps)) << " steps (" << device_name(device) << ", "
        << (ranks->alone() ? "" : counted(ranks->size(), "rank") + ", each ") << threads.text() << ") in "
        << run->path().string();
  if (state != nullptr)
    title << ", from step " << trainer.status().steps << " of " << start.checkpoint->file.filename().string();
  if (!start.first_weights.tensors.empty()) title << ", from " << start.first_weights.where;
  display.say(title.str());
  if (state != nullptr && trainer.restored_ranks() != ranks->size())
    display.say("  saved by " + counted(trainer.restored_ranks(), "rank") +
                ": replay and environments are dealt anew to " + counted(ranks->size(), "rank"));
  for (const std::string& repair : recorder.repairs()) display.say("  " + repair);
  if (!start.preset_overrides.empty()) display.say("  " + start.preset_overrides);
  if (!facts.empty()) display.say(facts_text(facts));
  if (device.is_cuda())  // on the CPU there is one road
    for (const Road& road : roads) display.say("  " + road_text(road));
  start.checkpoint.reset();  // its tensors are of no more use
  start.first_weights = {};
  TrainStatus status;
  {
    std::optional<StopSignals> signals;
    if (!call.at_once) signals.emplace();
    const SignalledRun signalled(trainer);
    status = trainer.run({&recorder, &advice, &display});
  }
  if (status.final_evaluation)
    if (const auto film = film_final_evaluation(run->path()))
      recorder.write_film(status, film->width, film->height, film->gif);
  print_end(call.out, *run, status);
  return status;
}

std::string how_to_go_on(const std::optional<RunDirectory>& run) {
  if (!run) return "";
  std::string text = "; go on with " + shell_command({"engram", "train", "--resume", run->path().string()});
  try {
    const auto files = list_checkpoints(run->checkpoints_folder());
    if (!files.empty()) text += ", from " + files.back().filename().string();
  } catch (const std::exception&) {
  }
  return text;
}

}  // namespace engram
