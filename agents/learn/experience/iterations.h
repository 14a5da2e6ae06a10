// Iterations: a learner on policy learns from what has ended since the last iteration, whole episodes from their first
// step on, as POPGym's agents do (Morad et al. 2023). Once the episodes of all ranks have so many steps, they are
// judged by the weights of that moment, and learnt from in several passes, each in an order of its own, dealt to
// minibatches as evenly as they can be. Where they have more steps than asked for, as when all environments end
// together, there are more minibatches and not larger ones (as in RLlib). Then they are forgotten. An episode that was
// under way meanwhile keeps the log-probabilities of the weights that took its actions, and is of the next iteration.
//
// Its state may be saved between any two minibatches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "agents/learn/experience/batch_parts.h"
#include "agents/learn/experience/experience.h"
#include "agents/learn/learner_config.h"

namespace engram {

class Iterations final : public Experience {
 public:
  // Of so many environments of this rank.
  Iterations(const IterationOptions& options, const TaskInfo& task, std::int64_t environments, std::uint64_t seed,
             int rank, torch::Device device);

  void add(const RecordingMemory& recording, const std::vector<RecordedEpisode>& episodes) override;
  void count(std::int64_t steps, double episode_return) override;
  bool owes_update() const override { return ended_steps_ >= options_.steps; }
  bool ready() const override { return !learnt_ && store_.episodes() >= options_.minibatches; }
  std::optional<IterationEpisodes> next_iteration() const override;
  std::int64_t next_batch_steps() const override;
  NamedScalars update(Learner& learner, const Collected& all, double progress) override;
  double unlearnt_steps() const override;
  void visit_common_state(StateArchive& archive) override;
  void visit_own_state(StateArchive& archive,
                       const std::function<std::unique_ptr<VecEnv>()>& make_environments) override;
  void take_over(const EpisodeLog& episodes, VecEnv& environments, const StateArchive& archive,
                 std::uint32_t stream) override;

 private:
  std::int64_t updates() const { return options_.passes * minibatches_; }
  // T of a batch with the longest episode of any rank, and whether parts are computed instead: all ranks know both.
  std::int64_t longest_steps(const Collected& all) const { return std::max(next_batch_steps(), all.batch_steps); }
  bool in_parts(std::int64_t longest) const { return are_ragged(ended_episodes_, ended_steps_, longest); }
  EpisodeBatch gather(const std::vector<std::int64_t>& episodes, std::int64_t longest, const Collected& all);
  EpisodeBatch gather(const BatchPart& part) { return store_.gather_as(part.episodes, part.steps, part.rows); }
  std::vector<BatchPart> parts_of(const std::vector<std::int64_t>& episodes) const;
  NamedScalars learn_from(Learner& learner, const std::vector<std::int64_t>& episodes, const Collected& all);
  void estimate_all(Learner& learner, const Collected& all);
  void shuffle();
  void visit_returns(StateArchive& archive);

  const IterationOptions options_;
  const torch::Device device_;
  const BatchParts parts_;
  std::int64_t ended_steps_ = 0;     // of all ranks' episodes, since the last iteration
  std::int64_t ended_episodes_ = 0;  // likewise, and the sum of their returns
  double ended_return_ = 0;
  std::deque<double> last_returns_;  // of the run's last episodes, IterationEpisodes::kSmoothed at most
  std::int64_t minibatches_;         // of a pass of this iteration
  std::int64_t done_ = 0;            // updates of this iteration
  double progress_ = 0;              // when it began
  bool annealed_ = false;            // the learner knows that
  bool learnt_ = false;              // the episodes are those of the last iteration
  std::vector<std::int64_t> order_;  // of this rank's episodes in this pass
};

}  // namespace engram
