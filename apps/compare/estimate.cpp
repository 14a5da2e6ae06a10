#include "apps/compare/estimate.h"

#include <algorithm>
#include <chrono>

namespace engram {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void PaceWatch::report(const TrainStatus& status) {
  if (status.seconds_acting > 0) acting_.see(status.steps, status.seconds_acting);
  if (status.updates >= 2) learning_.see(status.updates, status.seconds_learning);
}

void PaceWatch::Pace::see(std::int64_t count, double seconds) {
  if (!first_count) {
    first_count = last_count = count;
    first_seconds = last_seconds = seconds;
  } else if (count > last_count) {
    last_count = count;
    last_seconds = seconds;
  }
}

namespace {

// Asks the run to stop when its time is over, whatever it does.
class Deadline : public TrainObserver {
 public:
  Deadline(Trainer& trainer, Clock::time_point end) : trainer_(trainer), end_(end) {}
  void report(const TrainStatus&) override { look(); }
  void evaluating() override { look(); }

 private:
  void look() {
    if (Clock::now() >= end_) trainer_.stop();
  }

  Trainer& trainer_;
  Clock::time_point end_;
};

}  // namespace

std::optional<double> estimate_seconds(const PlannedRun& run, torch::Device device, int threads, double within) {
  constexpr double kFirstSeconds = 1.5, kPartOfTraining = 0.6;  // the rest: set-up, and an evaluation
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(within));
  const Config& config = run.config;
  for (double seconds = std::min(kFirstSeconds, kPartOfTraining * within); Clock::now() < end; seconds *= 3) {
    Config brief = config;
    brief.run.max_seconds = seconds;
    brief.run.report_seconds = 0.01;
    brief.evaluation.final_episodes = 0;
    brief.evaluation.every_steps = config.run.steps;  // one, at the very end
    brief.evaluation.stop_at_success = 0;
    brief.checkpoint.every_minutes = 0;
    PaceWatch watch;
    Trainer trainer(brief, device, threads);
    Deadline deadline(trainer, end);
    const TrainStatus status = trainer.run({&watch, &deadline});
    if (status.stopped == StopReason::kRequest) return {};
    const bool whole = status.stopped == StopReason::kSteps;  // so short that it has ended
    if (!whole && !watch.enough()) continue;
    const auto steps = static_cast<double>(config.run.steps);
    const double evaluations = steps / static_cast<double>(config.evaluation.every_steps) +
                               static_cast<double>(config.evaluation.final_episodes) / config.evaluation.episodes;
    const double training =
        whole ? status.seconds - status.seconds_evaluating
              : steps * (watch.seconds_per_step() + config.updates_per_step() * watch.seconds_per_update());
    const double total = training + evaluations * status.seconds_evaluating;
    return config.run.max_seconds > 0 ? std::min(total, config.run.max_seconds) : total;
  }
  return {};
}

}  // namespace engram
