#include "apps/compare/estimate.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace engram {

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

double estimate_seconds(const PlannedRun& run, torch::Device device, int threads) {
  constexpr double kFirstSeconds = 1.5, kLongestSeconds = 60;
  const Config& config = run.config;
  for (double seconds = kFirstSeconds;; seconds *= 3) {
    Config brief = config;
    brief.run.max_seconds = seconds;
    brief.run.report_seconds = 0.01;
    brief.evaluation.final_episodes = 0;
    brief.evaluation.every_steps = config.run.steps;  // one, at the very end
    brief.evaluation.stop_at_success = 0;
    brief.checkpoint.every_minutes = 0;
    PaceWatch watch;
    const TrainStatus status = Trainer(brief, device, threads).run({&watch});
    const bool whole = status.stopped == StopReason::kSteps;  // so short that it has ended
    if (!whole && !watch.enough()) {
      if (seconds < kLongestSeconds) continue;
      throw UserError(run.task + "/" + run.backbone + " does not learn anything in " +
                      std::to_string(static_cast<int>(kLongestSeconds)) + " seconds on this machine");
    }
    const auto steps = static_cast<double>(config.run.steps);
    const double evaluations = steps / static_cast<double>(config.evaluation.every_steps) +
                               static_cast<double>(config.evaluation.final_episodes) / config.evaluation.episodes;
    const double training =
        whole ? status.seconds - status.seconds_evaluating
              : steps * (watch.seconds_per_step() + config.updates_per_step() * watch.seconds_per_update());
    const double total = training + evaluations * status.seconds_evaluating;
    return config.run.max_seconds > 0 ? std::min(total, config.run.max_seconds) : total;
  }
}

}  // namespace engram
