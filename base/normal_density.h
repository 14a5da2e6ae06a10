// The density of a normal distribution, the same text for the CPU and the GPU.
#pragma once

#include <math.h>

#include "base/host_device.h"

namespace engram {

inline constexpr double kHalfLogTwoPi = 0.91893853320467274178;

// Logarithm of the density at x, of a logarithm of the standard deviation:
//   -(x - mean)^2 / (2 deviation^2) - log deviation - log(2 pi) / 2
HOST_DEVICE inline float log_normal_density(float x, float mean, float log_deviation) {
  const float z = (x - mean) * expf(-log_deviation);
  return -0.5f * z * z - log_deviation - static_cast<float>(kHalfLogTwoPi);
}

}  // namespace engram
