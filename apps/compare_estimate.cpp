#include "apps/compare_estimate.h"

#include <algorithm>
#include <optional>
#include <string>

#include "agents/trainer.h"
#include "base/error.h"

namespace engram {
namespace {

// Two moments of a run that has begun to learn: what lies between them is neither set-up nor a first call.
class Watch : public TrainObserver {
 public:
  void report(const TrainStatus& status) override {
    if (status.updates < 2) return;
    if (!first_) first_ = status;
    last_ = status;
  }
  bool enough() const { return first_ && last_.updates > first_->updates && last_.steps > first_->steps; }
  double seconds_per_step() const {
    return (last_.seconds_acting - first_->seconds_acting) / static_cast<double>(last_.steps - first_->steps);
  }
  double seconds_per_update() const {
    return (last_.seconds_learning - first_->seconds_learning) / static_cast<double>(last_.updates - first_->updates);
  }

 private:
  std::optional<TrainStatus> first_;
  TrainStatus last_;
};

}  // namespace

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
    Watch watch;
    const TrainStatus status = Trainer(brief, device, threads).run({&watch});
    if (!watch.enough()) {
      if (seconds < kLongestSeconds) continue;
      throw UserError(run.task + "/" + run.backbone + " does not learn anything in " +
                      std::to_string(static_cast<int>(kLongestSeconds)) + " seconds on this machine");
    }
    const auto steps = static_cast<double>(config.run.steps);
    const double evaluations = steps / static_cast<double>(config.evaluation.every_steps) +
                               static_cast<double>(config.evaluation.final_episodes) / config.evaluation.episodes;
    const double total = steps * (watch.seconds_per_step() + config.run.updates_per_step * watch.seconds_per_update()) +
                         evaluations * status.seconds_evaluating;
    return config.run.max_seconds > 0 ? std::min(total, config.run.max_seconds) : total;
  }
}

}  // namespace engram
