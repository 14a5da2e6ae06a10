// Trainer: the schedule of a run. Random episodes first; then collect episodes with the stochastic policy (training
// mode: dropout on, memory carried) and do the updates that they pay for, over and over, with an evaluation every so
// often.
//
// An evaluation changes nothing of what follows: its environments, its policy and their random numbers are its own, and
// the greedy policy without dropout draws nothing from torch's default generators.
#pragma once

#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "agents/config.h"
#include "agents/experience.h"
#include "agents/network.h"
#include "agents/sac_learner.h"

namespace engram {

struct EvaluationSummary {
  std::int64_t environment_steps = 0;  // collected when it was made
  int episodes = 0;
  double success = 0;      // rate
  double mean_return = 0;  // undiscounted
};

// Means over the valid steps of the last update's batch.
struct LossValues {
  double critic_loss, actor_loss, entropy, alpha, mean_q, gradient_norm;
};

enum class StopReason { kNone, kSteps, kTime, kSolved, kRequest };

struct TrainStatus {
  std::int64_t steps = 0;        // environment steps
  std::int64_t total_steps = 0;  // of the whole run
  std::int64_t updates = 0;
  std::int64_t episodes = 0;                            // finished
  double seconds = 0;                                   // since the run began
  double steps_per_second = 0, updates_per_second = 0;  // since learning began, evaluations included
  double seconds_left = 0;                              // estimate
  double done = 0;                                      // fraction of the run
  double recent_return = 0, recent_success = 0;         // of the last 50 collected episodes; 0 before the first
  std::optional<LossValues> losses;                     // none before the first update
  std::optional<EvaluationSummary> last_evaluation, best_evaluation;
  // Of `seconds`: acting with the policy to collect, updating, evaluating; on a GPU each waits for what it began.
  double seconds_acting = 0, seconds_learning = 0, seconds_evaluating = 0;
  StopReason stopped = StopReason::kNone;
};

// Told about a run's progress, in the thread of Trainer::run().
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  // Every run.report_seconds.
  virtual void report(const TrainStatus& status) = 0;
  // After an evaluation. `best`: it is the best so far (highest success, then return; the later wins a tie).
  virtual void evaluated(const TrainStatus& status, const AgentNetwork& network, bool best) = 0;
  // At the end, once.
  virtual void finished(const TrainStatus& status, const AgentNetwork& network) = 0;
};

class Trainer {
 public:
  // Seeds torch's default generators with the run's seed. `threads`: of the environments.
  Trainer(const Config& config, torch::Device device, int threads);

  // Runs the whole schedule, once. Ends with an evaluation, unless stop() cut it short.
  TrainStatus run(const std::vector<TrainObserver*>& observers);

  // Where it acts, for people.
  std::string acts_in() const { return experience_->description(); }

  // Makes run() return after the present step or update. May be called from a signal handler.
  void stop() { stop_requested_ = true; }

 private:
  void collect_random_episodes();
  void collect_episode();
  void collect(Acting acting);
  void add_episode(const EpisodeResult& episode);
  void learn();
  void evaluate_policy();
  bool evaluation_due() const { return status_.steps >= next_evaluation_; }
  bool time_is_up() const;
  bool interrupted() const { return stop_requested_ || time_is_up(); }
  bool finished();
  void report_if_due();
  void update_status();

  const Config config_;
  std::shared_ptr<AgentNetwork> network_;
  std::unique_ptr<Experience> experience_;
  SacLearner learner_;

  std::vector<TrainObserver*> observers_;
  TrainStatus status_;
  std::deque<std::pair<double, bool>> recent_;  // return and success of the last collected episodes
  std::optional<LossReport> last_losses_;
  std::int64_t pending_updates_ = 0;  // that collected episodes pay for
  std::int64_t next_evaluation_;      // environment steps
  std::uint32_t evaluations_ = 0;
  std::int64_t random_steps_ = 0;
  std::chrono::steady_clock::time_point start_, learning_start_, last_report_;
  std::atomic<bool> stop_requested_ = false;
};

}  // namespace engram
