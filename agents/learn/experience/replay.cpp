#include "agents/learn/experience/replay.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>

namespace engram {
namespace {

// That a run's environments of one rank ever collect: it ends with the look after its last step, with an episode of
// every environment that began at random before it.
std::int64_t most_steps(const Config& config, const Block& environments) {
  const std::int64_t longest = config.task.info().max_episode_steps + Rollout::kStepsBetweenLooks;
  const std::int64_t of_each = (config.run.steps + config.run.num_envs - 1) / config.run.num_envs;
  return of_each * environments.count + longest * (config.run.num_envs + config.run.random_episodes);
}

}  // namespace

Replay::Replay(const Config& config, const RunShare& share, int rank, torch::Device device)
    : Experience({share.replay, config.task.info(), most_steps(config, share.environments), device}, config.run.seed,
                 rank),
      updates_per_step_(config.run.updates_per_step),
      on_gpu_(device.is_cuda()) {}

void Replay::count(std::int64_t steps, double) {
  pending_updates_ += static_cast<std::int64_t>(std::ceil(updates_per_step_ * static_cast<double>(steps)));
}

NamedScalars Replay::update(Learner& learner, const Collected& all, double) {
  --pending_updates_;
  return learner.update(store_.sample(random_, all.batch_steps));
}

double Replay::unlearnt_steps() const {
  return updates_per_step_ > 0 ? static_cast<double>(pending_updates_) / updates_per_step_ : 0;
}

void Replay::visit_common_state(StateArchive& archive) {
  archive.value("pending_updates", pending_updates_);
  if (pending_updates_ < 0) archive.refuse("pending_updates", "a count is negative");
}

void Replay::take_over(const EpisodeLog& episodes, VecEnv& environments, const StateArchive& archive,
                       std::uint32_t stream) {
  store_.keep(episodes, environments, archive);
  random_ = draws_of(stream);
}

}  // namespace engram
