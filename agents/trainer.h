// Trainer: the schedule of a run. Random episodes first; then collect episodes with the stochastic policy (training
// mode: dropout on, memory carried) and do the updates that they pay for, over and over, with an evaluation every so
// often.
//
// A run is a sequence of small moves, each a function of the state before it alone; between any two of them the state
// can be saved, and a run restored from it goes on as if it had never stopped. Clocks decide when to report, when to
// save and when time is up, and nothing else. An evaluation plays greedy episodes and as many with sampled actions, and
// changes nothing of what follows: its environments, its policy and their random numbers are its own, and without
// dropout nothing is drawn from torch's default generators.
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
#include "agents/episode_store.h"
#include "agents/evaluator.h"
#include "agents/learner.h"
#include "agents/network.h"
#include "agents/rollout.h"
#include "agents/run_share.h"
#include "agents/statistics.h"
#include "ranks/ranks.h"
#include "storage/state_archive.h"
#include "storage/tensorboard.h"

namespace engram {

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

// Told about a run's progress, in the thread of Trainer::run().
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  // Every run.report_seconds.
  virtual void report(const TrainStatus&) {}
  // Every run.metrics_every_steps, when the updates owed are done. All but the times is a function of config and seed.
  virtual void measured(const TrainStatus&) {}
  // After an evaluation. `best`: it is the best so far (better_or_equal()).
  virtual void evaluated(const TrainStatus&, const AgentNetwork&, bool /*best*/) {}
  // A checkpoint is due. Lists its own state after the trainer's and writes the archive.
  virtual void save(const TrainStatus&, StateArchive&) {}
  // At the end, once, after the last save.
  virtual void finished(const TrainStatus&, const AgentNetwork&) {}
};

// Weights of a trained network.
struct StartingWeights {
  TensorMap tensors;
  std::string where;  // the file, for messages
};

class Trainer {
 public:
  // Seeds torch's default generators with the run's seed. `threads`: of the environments. `first_weights`: to
  // begin with; none: those of a fresh network. Throws UserError if they are not of this config's network.
  // With several `ranks`, each on a GPU of its own or all on CPUs, this trains one agent together with their trainers,
  // which have the same config and make the same calls; of observers the first rank's alone are needed. Throws
  // UserError where there are more ranks than environments or episodes of a batch; then everything throws RankLost once
  // one of them is gone.
  Trainer(const Config& config, torch::Device device, int threads, const StartingWeights& first_weights = {},
          std::shared_ptr<Ranks> ranks = std::make_shared<Ranks>());

  // Goes on from a saved state. Call before run(), at most once. Throws UserError for a state of another config. What
  // another number of ranks has saved is dealt anew: the replay's episodes go with their environments, each of which
  // begins its next episode.
  void restore(StateArchive& archive);
  // How many ranks had saved what was restored.
  int restored_ranks() const { return restored_ranks_; }

  // Runs the schedule to its end, once; then saves, makes an evaluation if the last one is of an earlier step, and the
  // final evaluation. stop() cuts it short after the save. Throws std::runtime_error when a loss or gradient has not
  // been finite and run.on_nan is stop; nothing is saved then.
  TrainStatus run(const std::vector<TrainObserver*>& observers);

  const TrainStatus& status() const { return status_; }
  const AgentNetwork& network() const { return *network_; }
  // The weights of the best evaluation so far; empty before the first.
  const TensorMap& best_weights() const { return best_weights_; }
  // What acts, for people.
  std::string acts_by() const { return rollout_->policy().description(); }

  // Make run() save and return, or save and go on, after the current move; an evaluation is given up and made again
  // later. May be called from a signal handler.
  void stop() { stop_requested_ = true; }
  void save_soon() { save_requested_ = true; }

 private:
  enum class Phase { kRandom, kCollect, kLearn, kMeasure };

  void visit_common_state(StateArchive& archive);
  void visit_experience(StateArchive& archive);
  void visit_own_share(StateArchive& archive);
  void deal_experience(StateArchive& archive);
  void gather_shares(StateArchive& archive);
  void visit_evaluation(StateArchive& archive, const std::string& name, std::optional<EvaluationSummary>& evaluation);
  void move();
  enum class Acting { kRandom, kPolicy };
  void collect(Acting acting);
  void add_episode(const EpisodeResult& episode);
  void update();
  void check_finite();
  void measure();
  struct Results {
    std::vector<EpisodeResult> greedy, sampled;
  };
  std::optional<Results> play(int episodes, std::uint32_t first_episode);
  Rollout& evaluation_rollout(const Block& environments);
  std::unique_ptr<VecEnv> training_rules() const;
  void draw_dropout_apart();
  bool all_have_episodes();
  std::vector<Scalar> critic_loss_by_phase();
  bool evaluate_policy();
  void evaluate_finally();
  bool time_is_up() const;
  enum Wish { kWishStop = 1, kWishEnd = 2, kWishSave = 4 };  // bits: a request; time is up; a checkpoint is due
  int own_wishes() const;
  struct AllPlayed {
    std::int64_t steps = 0;
    std::vector<EpisodeResult> episodes;  // in the order of the ranks, that of their environments
  };
  AllPlayed exchange(std::int64_t steps, const std::vector<EpisodeResult>& episodes);
  bool finished();
  void save();
  bool save_is_due() const;
  void report_if_due();
  double settled_steps() const;  // environment steps whose updates are done
  void update_status();

  static constexpr std::size_t kRecentEpisodes = 50;
  // The first multiple of `every` after `steps`.
  static std::int64_t next_multiple(std::int64_t steps, std::int64_t every) { return (steps / every + 1) * every; }

  const Config config_;
  const std::shared_ptr<Ranks> ranks_;
  const RunShare share_;
  std::shared_ptr<AgentNetwork> network_;
  const torch::Device device_;
  const int threads_;  // of environments
  std::unique_ptr<Rollout> rollout_, evaluation_rollout_;
  Block evaluated_;  // environments of the latter
  // Of the CPU, in which episodes of either are played again; made when they are needed.
  std::unique_ptr<VecEnv> training_rules_, evaluation_rules_;
  EpisodeStore replay_;
  Rng random_, replay_random_;  // of random actions, of batches
  std::unique_ptr<Learner> learner_;

  std::vector<TrainObserver*> observers_;
  Phase phase_ = Phase::kRandom;
  TrainStatus status_;
  std::deque<std::pair<double, bool>> recent_;  // return and success of the last collected episodes
  NamedScalars last_losses_;                    // none before the first update
  TensorMap best_weights_;
  std::int64_t pending_updates_ = 0;             // that collected episodes pay for
  std::int64_t next_evaluation_, next_metrics_;  // environment steps
  std::uint32_t evaluations_ = 0;
  bool all_have_episodes_ = false;
  int agreed_wishes_ = 0;                // of any of the ranks, as of the last exchange
  std::int64_t agreed_batch_steps_ = 1;  // that every rank's next batch has at least; likewise
  bool wishes_are_new_ = false;          // that was in this move
  int restored_ranks_ = 1;

  using Clock = std::chrono::steady_clock;
  Clock::time_point start_, learning_start_, last_report_, last_save_;
  double seconds_before_ = 0;                           // restoration
  std::int64_t steps_before_ = 0, updates_before_ = 0;  // learning began or went on
  double settled_ = 0, settled_before_ = 0;             // settled_steps(), now and when learning began or went on
  std::int64_t next_save_ = 0;                          // environment steps
  std::atomic<bool> stop_requested_ = false, save_requested_ = false;
};

}  // namespace engram
