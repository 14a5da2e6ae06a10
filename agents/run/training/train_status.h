// TrainStatus: how far a run has come and what its evaluations showed, without LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "agents/study/statistics.h"
#include "storage/log/tensorboard.h"

namespace engram {

// What episodes that were played alike came to.
struct PlayedEpisodes {
  double success = 0;      // rate
  double mean_return = 0;  // undiscounted

  friend bool operator==(const PlayedEpisodes&, const PlayedEpisodes&) = default;
};

// Of episodes of a task that says what its decision is (VecEnv::decided()).
struct DecisionRates {
  double decided = 0;           // of all episodes: the decision was taken, rightly or wrongly
  std::optional<double> right;  // of the decided ones; none where there are none

  friend bool operator==(const DecisionRates&, const DecisionRates&) = default;
};

struct EvaluationSummary {
  std::int64_t environment_steps = 0, updates = 0;  // when it was made
  int episodes = 0;                                 // greedy ones, and as many sampled ones
  PlayedEpisodes greedy;                            // the most probable actions
  std::optional<PlayedEpisodes> sampled = {};       // actions drawn from the policy; none in runs of older versions
  // What follows is for people: nothing depends on it, and a state does not keep it.
  std::optional<std::int64_t> collected_episodes = {};  // finished in training before; none in runs of older versions
  std::optional<DecisionRates> greedy_decisions = {}, sampled_decisions = {};  // of tasks that say what these are
  // Of kPhaseEpisodes episodes, spread evenly over the replay, as "critic_loss_" and the name of a phase of the task;
  // empty where the episodes show no two phases.
  std::vector<Scalar> critic_loss_by_phase = {};

  static constexpr std::int64_t kPhaseEpisodes = 32;
};

// Which of two evaluations shows the better weights, by its greedy episodes alone: highest success, then return; the
// later one, `a`, wins a tie.
bool better_or_equal(const EvaluationSummary& a, const EvaluationSummary& b);

// An evaluation of the best weights, on episodes that did not choose them.
struct FinalEvaluation {
  struct Played {
    int solved = 0;
    Interval success{};      // Wilson's 95% interval
    double mean_return = 0;  // undiscounted
    std::optional<DecisionRates> decisions = {};
  };

  EvaluationSummary weights;           // of the evaluation that chose them
  int episodes = 0;                    // greedy ones, and as many sampled ones
  Played greedy;                       // the most probable actions
  std::optional<Played> sampled = {};  // actions drawn from the policy; none in runs of older versions
};

// Training episodes of a learner on policy, as an iteration begins to learn from them.
struct IterationEpisodes {
  std::int64_t episodes = 0;  // that ended since the iteration before
  double mean_return = 0;     // of these or, where they are fewer than kSmoothed, of the last kSmoothed of the run

  // RLlib's metrics_num_episodes_for_smoothing, which POPGym's agents (popgym/baselines/ppo.py) leave at its default.
  // _compile_step_results() in rllib/algorithms/algorithm.py puts the episodes of before in front where they are fewer,
  // and summarize_episodes() in rllib/evaluation/metrics.py takes the mean, episode_reward_mean.
  static constexpr std::size_t kSmoothed = 100;
};

enum class StopReason { kNone, kSteps, kTime, kSolved, kRequest };

struct TrainStatus {
  std::int64_t steps = 0;        // environment steps
  std::int64_t total_steps = 0;  // of the whole run
  std::int64_t updates = 0;
  std::int64_t episodes = 0;                            // finished
  double seconds = 0;                                   // of training, those before a restoration included
  double steps_per_second = 0, updates_per_second = 0;  // since learning began or went on, evaluations included
  std::optional<double> seconds_left;                   // estimate; none before the first update
  double done = 0;                                      // fraction of the run
  double recent_return = 0, recent_success = 0;         // of the last 50 collected episodes; 0 before the first
  std::int64_t skipped_updates = 0;                     // whose loss or gradients were not finite
  std::vector<Scalar> losses;                           // of the last update; none before the first
  std::optional<EvaluationSummary> last_evaluation, best_evaluation;
  std::optional<FinalEvaluation> final_evaluation;
  // Since the run began or went on: collecting with the policy, updating, evaluating; on a GPU each waits for what it
  // began.
  double seconds_acting = 0, seconds_learning = 0, seconds_evaluating = 0;
  StopReason stopped = StopReason::kNone;
};

}  // namespace engram
