// The choice of an action from the policy's probabilities, the same on the CPU and on the GPU: the same probabilities
// and the same stream give the same action.
#pragma once

#include <math.h>

#include <cstdint>
#include <cstring>

#include "base/exact.h"
#include "base/rng.h"

namespace engram {

// Draws one number of `rng`. Probabilities are finite and need not sum to 1.
HOST_DEVICE inline std::int32_t sample_action(const float* probabilities, std::int64_t num_actions, Rng& rng) {
  double total = 0;
  for (std::int64_t action = 0; action < num_actions; ++action) total += probabilities[action];
#if defined(__CUDA_ARCH__)
  double rest = __dmul_rn(rng.uniform(), total);  // never fused with the subtraction below
#else
  double rest = rng.uniform() * total;
#endif
  std::int64_t chosen = 0;
  // Rounding may leave a rest after the last action: then the last action that is possible is taken.
  for (std::int64_t action = 0; action < num_actions; ++action) {
    if (probabilities[action] <= 0) continue;
    chosen = action;
    rest -= probabilities[action];
    if (rest < 0) break;
  }
  return static_cast<std::int32_t>(chosen);
}

// A continuous action of independent normal numbers, from their means and then the logarithms of their standard
// deviations: drawn two by two, or the means, which draw nothing. Writes the bits of the numbers, and returns whether
// all are finite.
HOST_DEVICE inline bool draw_numbers(const float* normal, int numbers, bool greedy, Rng& rng, std::int32_t* row) {
  bool finite = true;
  exact::NormalPair drawn{};
  for (int i = 0; i < numbers; ++i) {
    float number = normal[i];
    if (!greedy) {
      if (i % 2 == 0) drawn = exact::normal_pair(rng);
      number += expf(normal[numbers + i]) * static_cast<float>(i % 2 == 0 ? drawn.first : drawn.second);
    }
    finite = finite && number - number == 0 && normal[numbers + i] - normal[numbers + i] == 0;
    std::memcpy(row + i, &number, sizeof number);
  }
  return finite;
}

// The first of the most probable.
HOST_DEVICE inline std::int32_t greedy_action(const float* probabilities, std::int64_t num_actions) {
  std::int64_t best = 0;
  for (std::int64_t action = 1; action < num_actions; ++action)
    if (probabilities[action] > probabilities[best]) best = action;
  return static_cast<std::int32_t>(best);
}

}  // namespace engram
