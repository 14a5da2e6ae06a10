// Replay: a learner off policy learns from the last so many episodes, drawn uniformly. An episode pays for
// run.updates_per_step updates a step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "agents/learn/experience/experience.h"

namespace engram {

class Replay final : public Experience {
 public:
  Replay(const Config& config, const RunShare& share, int rank, torch::Device device);

  void add(const RecordingMemory& recording, const std::vector<RecordedEpisode>& episodes) override {
    store_.add(recording, episodes);
  }
  void count(std::int64_t steps, double episode_return) override;
  bool owes_update() const override { return pending_updates_ > 0; }
  bool ready() const override { return store_.episodes() > 0; }
  // On GPUs all ranks' batches are as long as the longest, so that they launch, record and replay the same updates.
  std::int64_t next_batch_steps() const override { return on_gpu_ ? store_.sampled_steps(random_) : 1; }
  NamedScalars update(Learner& learner, const Collected& all, double progress) override;
  double unlearnt_steps() const override;
  void visit_common_state(StateArchive& archive) override;
  void take_over(const EpisodeLog& episodes, VecEnv& environments, const StateArchive& archive,
                 std::uint32_t stream) override;

 private:
  const double updates_per_step_;
  const bool on_gpu_;
  std::int64_t pending_updates_ = 0;  // that ended episodes pay for
};

}  // namespace engram
