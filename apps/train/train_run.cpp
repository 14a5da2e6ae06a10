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
#include "agents/run/machine/hardware.h"
#include "agents/run/training/training.h"
#include "apps/cli/status_display.h"
#include "apps/cli/stop_signals.h"
#include "apps/cli/taken_signals.h"
#include "apps/cli/threads.h"
#include "apps/train/final_film.h"
#include "apps/train/run_advice.h"
#include "base/text/words.h"
#include "nn/device/device.h"
#include "storage/tensors/checkpoint.h"

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

}  // namespace

void check_runs_fit(const Config& config, int at_once) {
  Ranks alone;
  training_place(config, alone, at_once);
}

TrainStatus train_along(Start& start, const std::shared_ptr<Ranks>& ranks) {
  const auto [device, threads] = training_place(start.config, *ranks);
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
  const TrainingPlace place = training_place(config, *ranks, call.at_once.value_or(1));
  const auto& [device, threads] = place;
  // Ranks that have met cannot meet again, and runs beside each other have begun.
  if (ranks->alone() && !call.at_once) wait_passively(threads, call.arguments);
  use_threads(threads.count);
  const bool many = call.at_once.value_or(1) > available_processors();
  if (config.run.gpu_wait == GpuWait::kSleep || (config.run.gpu_wait == GpuWait::kAuto && many))
    sleep_while_waiting(device);
  std::optional<OwnStream> own_stream;
  if (call.at_once) own_stream.emplace(device);
  std::vector<std::string> command_line = {"engram", "train"};
  command_line.insert(command_line.end(), call.arguments.begin(), call.arguments.end());
  TrainingRun training(start, {call.directory, command_line, place, ranks}, run);
  StatusDisplay display(call.out, call.width);
  RunAdvice advice(call.out, call.width != nullptr, device, config);

  std::ostringstream title;
  title << (start.checkpoint ? "Going on with " : "Training ") << config.memory.name() << " on " << config.task.name()
        << " for " << count_text(static_cast<double>(config.run.steps)) << " steps (" << device_name(device) << ", "
        << (ranks->alone() ? "" : counted(ranks->size(), "rank") + ", each ") << threads.text() << ") in "
        << run->path().string();
  if (start.checkpoint)
    title << ", from step " << training.trainer().status().steps << " of "
          << start.checkpoint->file.filename().string();
  if (!start.first_weights.tensors.empty()) title << ", from " << start.first_weights.where;
  display.say(title.str());
  if (start.checkpoint && training.trainer().restored_ranks() != ranks->size())
    display.say("  saved by " + counted(training.trainer().restored_ranks(), "rank") +
                ": replay and environments are dealt anew to " + counted(ranks->size(), "rank"));
  for (const std::string& repair : training.recorder().repairs()) display.say("  " + repair);
  if (!start.preset_overrides.empty()) display.say("  " + start.preset_overrides);
  if (!training.facts().empty()) display.say(facts_text(training.facts()));
  if (device.is_cuda())  // on the CPU there is one road
    for (const Road& road : training.roads()) display.say("  " + road_text(road));
  start.checkpoint.reset();  // its tensors are of no more use
  start.first_weights = {};
  TrainStatus status;
  {
    std::optional<StopSignals> signals;
    if (!call.at_once) signals.emplace();
    const SignalledRun signalled(training.trainer());
    status = training.run({&advice, &display});
  }
  if (status.final_evaluation)
    if (const auto film = film_final_evaluation(run->path()))
      training.recorder().write_film(status, film->width, film->height, film->gif);
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
