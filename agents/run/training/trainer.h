// Trainer: the schedule of a run. Random episodes first, for a learner off policy; then collect episodes with the
// stochastic policy (training mode: dropout on, memory carried) and do the updates that they pay for (Experience), over
// and over, with an evaluation every so often.
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
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/act/network.h"
#include "agents/learn/experience/experience.h"
#include "agents/learn/learner.h"
#include "agents/play/evaluator.h"
#include "agents/play/rollout.h"
#include "agents/run/config/config.h"
#include "agents/run/training/run_share.h"
#include "agents/run/training/train_observer.h"
#include "agents/run/training/train_status.h"
#include "ranks/ranks.h"
#include "storage/tensors/state_archive.h"

namespace engram {

// Weights of a trained network.
struct StartingWeights {
  TensorMap tensors;
  std::string where;  // the file, for messages
};

class Trainer {
 public:
  // `threads`: of the environments. `first_weights`: to begin with; none: those of a fresh network. The program's own
  // generators stay as they are. Throws UserError if the weights are not of this config's network.
  // With several `ranks`, each on a GPU of its own or all on CPUs, this trains one agent together with their trainers,
  // which have the same config and make the same calls; of observers the first rank's alone are needed. Throws
  // UserError where there are more ranks than environments or episodes of a batch; then everything throws RankLost once
  // one of them is gone.
  // `source`: of environments in place of the task's, on the CPU, without other ranks. They are not played again: what
  // is saved keeps their observations, and a run that is restored begins their next episodes.
  Trainer(const Config& config, torch::Device device, int threads, const StartingWeights& first_weights = {},
          std::shared_ptr<Ranks> ranks = std::make_shared<Ranks>(), EnvironmentSource source = {});

  // Goes on from a saved state. Call before run(), at most once. Throws UserError for a state of another config. What
  // another number of ranks has saved is dealt anew: the replay's episodes go with their environments, each of which
  // begins its next episode.
  void restore(StateArchive& archive);
  // How many ranks had saved what was restored.
  int restored_ranks() const { return restored_ranks_; }

  // Runs the schedule to its end, once; then saves, makes an evaluation if the last one is of an earlier step, and the
  // final evaluation. stop() cuts it short after the save. Throws std::runtime_error when a loss or gradient has not
  // been finite and run.on_nan is stop; nothing is saved then. What environments of a source throw is thrown on, after
  // a save.
  TrainStatus run(const std::vector<TrainObserver*>& observers);

  const TrainStatus& status() const { return status_; }
  const AgentNetwork& network() const { return *network_; }
  // The weights of the best evaluation so far; empty before the first.
  const TensorMap& best_weights() const { return best_weights_; }
  // What acts, for people.
  std::string acts_by() const { return rollout_->policy().description(); }

  // Make run() save and return, or save and go on, after the current move; an evaluation is given up and made again
  // later. May be called from any thread.
  void stop() { stop_requested_ = true; }
  void save_soon() { save_requested_ = true; }

 private:
  struct FirstAgent {
    std::shared_ptr<AgentNetwork> network;
    std::optional<LowRankAdapters> adapters;
  };
  Trainer(const Config& config, torch::Device device, int threads, FirstAgent first, std::shared_ptr<Ranks> ranks,
          EnvironmentSource source);
  static FirstAgent first_agent(const Config& config, torch::Device device, const StartingWeights& first_weights);

  enum class Phase { kRandom, kCollect, kLearn, kMeasure };

  void visit_common_state(StateArchive& archive);
  void visit_experience(StateArchive& archive);
  void visit_own_share(StateArchive& archive);
  void deal_experience(StateArchive& archive);
  void gather_shares(StateArchive& archive);
  void visit_evaluation(StateArchive& archive, const std::string& name, std::optional<EvaluationSummary>& evaluation);
  std::unique_ptr<Rollout> make_own_rollout(Purpose purpose, const Block& environments, MemorySpan span) const;
  void move();
  void move_or_save();
  bool evaluates() const { return !source_ || source_.evaluates; }
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
  double progress() const { return static_cast<double>(status_.steps) / static_cast<double>(status_.total_steps); }
  void update_status();

  static constexpr std::size_t kRecentEpisodes = 50;
  // The first multiple of `every` after `steps`.
  static std::int64_t next_multiple(std::int64_t steps, std::int64_t every) { return (steps / every + 1) * every; }

  const Config config_;
  const std::shared_ptr<Ranks> ranks_;
  const RunShare share_;
  const EnvironmentSource source_;
  std::shared_ptr<AgentNetwork> network_;
  const torch::Device device_;
  const int threads_;  // of environments
  std::unique_ptr<Rollout> rollout_, evaluation_rollout_;
  Block evaluated_;  // environments of the latter
  // Of the CPU, in which episodes of either are played again; made when they are needed.
  std::unique_ptr<VecEnv> training_rules_, evaluation_rules_;
  std::unique_ptr<Experience> experience_;
  Rng random_;  // of random actions
  std::unique_ptr<Learner> learner_;

  std::vector<TrainObserver*> observers_;
  Phase phase_ = Phase::kRandom;
  TrainStatus status_;
  std::deque<std::pair<double, bool>> recent_;  // return and success of the last collected episodes
  NamedScalars last_losses_;                    // none before the first update
  TensorMap best_weights_;
  std::int64_t next_evaluation_, next_metrics_;  // environment steps
  std::int64_t measured_steps_ = -1;             // of the last measure(); -1: none
  std::uint32_t evaluations_ = 0;
  int agreed_wishes_ = 0;        // of any of the ranks, as of the last exchange
  bool all_are_ready_ = false;   // to learn; likewise
  Collected collected_;          // likewise
  bool wishes_are_new_ = false;  // that was in this move
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
