// Filming: plays episodes in an environment and hands every moment to whoever shows it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "envs/vec_env.h"
#include "video/frame_painter.h"

namespace engram {

// Reads the current observation of the (only) environment, and says what to do.
using Decide = std::function<Decision(const VecEnv& environment)>;

// Uniformly random actions.
Decide random_policy(std::uint64_t seed);

struct FilmedEpisode {
  int steps;
  double total_reward;
  bool success;
};

// Plays one episode of `task` and shows the moments t = 0 .. T, the last with its outcome. The environment (N = 1),
// which is of the task, must stand at the start of an episode; it is left at its end, or after `most_steps`, which then
// has no outcome. `episode` of `episodes`, from 1, is what the frames say.
FilmedEpisode film_episode(const TaskConfig& task, VecEnv& environment, const Decide& decide, int episode, int episodes,
                           const std::function<void(const FrameContents&)>& show,
                           int most_steps = std::numeric_limits<int>::max());

}  // namespace engram
