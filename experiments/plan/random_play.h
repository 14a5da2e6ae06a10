// Random play: what uniformly random actions reach in a task, the lowest row of a comparison.
#pragma once

#include <cstdint>

#include "agents/study/statistics.h"
#include "envs/registry.h"

namespace engram {

struct RandomPlay {
  int episodes = 0;
  Interval success;      // Wilson's 95% interval
  Interval mean_return;  // Student's 95% interval
};

// On evaluation episodes that no training and no other evaluation sees; the same for every call. Throws
// std::invalid_argument if episodes < 1.
RandomPlay play_at_random(const TaskConfig& task, int episodes = 1000);

}  // namespace engram
