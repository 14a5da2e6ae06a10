// Generalised advantage estimation (Schulman et al. 2016, equation 16) of whole episodes. In episode b, over the steps
// t < steps_B[b], with A after the last of them 0, and V of the row after a termination counted as 0:
//   delta_t = r_t + gamma V_{t+1} - V_t,  A_t = delta_t + gamma lambda A_{t+1}
// and A_t = 0 after the steps, where nothing is read.
//
// All pointers are device memory, aligned as their types ask; the output overlaps no input. Computed in float. Episodes
// are independent of each other; the same input gives the same bits. Work is queued on `stream`. Errors:
// std::runtime_error for sizes outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace engram {

struct AdvantageInput {
  int batch;  // B
  int time;   // T
  float gamma, lambda;
  const float* reward_BT;      // this and the next: [B, T]
  const float* terminated_BT;  // 1 where the step ended the episode by termination
  const float* value_BT1;      // V, [B, T + 1]
  const std::int64_t* steps_B;
};

void estimate_advantages(const AdvantageInput& input, float* advantage_BT, cudaStream_t stream);

// Sums of A^0, A and A^2 over the steps t < steps_B[b] of advantages [B, T], in double, in a fixed order.
// `scratch`: kAdvantageMomentsScratch doubles.
constexpr int kAdvantageMoments = 3, kAdvantageMomentsScratch = 128 * kAdvantageMoments;
void advantage_moments(int batch, int time, const float* advantage_BT, const std::int64_t* steps_B, double* moments,
                       double* scratch, cudaStream_t stream);

}  // namespace engram
