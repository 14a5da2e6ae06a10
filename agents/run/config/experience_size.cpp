#include "agents/run/config/experience_size.h"

#include <algorithm>
#include <optional>

namespace engram {
namespace {

constexpr std::int64_t kNumber = 4;  // bytes of each of a row's other numbers

}  // namespace

ExperienceSize experience_size(const Config& config) {
  const TaskInfo task = config.task.info();
  const std::int64_t longest = task.max_episode_steps, observation = task.observation.bytes();
  if (const std::optional<IterationOptions> iterations = config.learner.iterations()) {
    const std::int64_t steps = iterations->steps + config.run.num_envs * longest;
    const std::int64_t of_batch = iterations->steps / iterations->minibatches;
    return {.rows = 2 * steps,
            .rows_key = "learner.iteration_steps",
            .row_bytes = observation + 5 * kNumber,
            .batch_episodes = (of_batch + longest - 1) / longest,
            .batch_key = "learner.minibatches"};
  }
  const ReplayOptions& replay = config.replay;
  const bool by_episodes = replay.minimum_episodes * longest > replay.capacity_steps;
  return {.rows = replay.rows(task, config.run.steps),
          .rows_key = by_episodes ? "replay.minimum_episodes" : "replay.capacity_steps",
          .row_bytes = observation + 2 * kNumber,
          .batch_episodes = replay.batch_episodes,
          .batch_key = "replay.batch_episodes"};
}

}  // namespace engram
