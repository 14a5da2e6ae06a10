// The advantages of one episode, for the kernel of advantages.h and for the loop on a CPU. Computed in float.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace engram {

// The formula of advantages.h, from the last step to the first. reward, terminated, advantage: [time]; value:
// [time + 1]. advantage[t] = 0 from t = steps on, where nothing is read but the value behind a last step that is no
// termination.
HOST_DEVICE inline void estimate_advantages(const float* reward, const float* terminated, const float* value,
                                            std::int64_t steps, std::int64_t time, float gamma, float lambda,
                                            float* advantage) {
  for (std::int64_t t = steps; t < time; ++t) advantage[t] = 0;
  float later = 0;
  for (std::int64_t t = steps - 1; t >= 0; --t) {
    const float next = terminated[t] != 0 ? 0.0f : value[t + 1];
    later = reward[t] + gamma * next - value[t] + gamma * lambda * later;
    advantage[t] = later;
  }
}

}  // namespace engram
