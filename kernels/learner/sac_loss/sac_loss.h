// The losses of discrete soft actor-critic (Christodoulou 2019) over whole episodes and their gradients, in one pass.
//
// At rows t = 0 .. T of episode b stand the actor's logits, Q1, Q2, and the target critics' Q1', Q2'. With p = softmax
// of the logits, log p = log(max(p, 1e-8)), n = sum of steps_B, over the steps t < steps_B[b]:
//   y_t     = r_t + gamma (1 - terminated_t) sum_a p_{t+1,a} (min(Q1', Q2')_{t+1,a} - alpha log p_{t+1,a})
//   critic1 = 1/n sum (Q1_{t,a_t} - y_t)^2,  critic2 the same with Q2
//   critic  = (critic1 + critic2) / 2
//   actor   = 1/n sum_t sum_a p_{t,a} (alpha log p_{t,a} - min(Q1, Q2)_{t,a}),  without gradient through Q and alpha
//   total   = critic + actor
//   entropy = -1/n sum_t sum_a p_{t,a} log p_{t,a},  mean_q = 1/n sum Q1_{t,a_t}
// The gradients are those of `total`; they are zero at t >= steps_B[b]. What stands there in the inputs is not read,
// nor is the last row's action.
//
// A row has A actions of `stride` elements, A <= 32. All pointers are device memory, 4-byte aligned. Computed in float.
// The same input gives the same bits. Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/common/cuda_support.h"

namespace engram {

constexpr int kMaxSacActions = 32;

struct SacLossInput {
  int batch;    // B
  int time;     // T: there are T + 1 rows
  int actions;  // A
  int stride;   // of a row of logits or Q values, >= A
  float gamma;
  const float* alpha;       // one number
  const float* logits_BTA;  // this and the next four: [B, T + 1, stride]
  const float* q1_BTA;
  const float* q2_BTA;
  const float* target_q1_BTA;
  const float* target_q2_BTA;
  const std::int64_t* action_BT;  // this and the next two: [B, T]
  const float* reward_BT;
  const float* terminated_BT;
  const std::int64_t* steps_B;
};

enum SacLossIndex { kSacTotal, kSacCritic, kSacCritic1, kSacCritic2, kSacActor, kSacEntropy, kSacMeanQ, kSacLosses };

struct SacLossOutput {
  float* losses;     // [kSacLosses]
  float* target_BT;  // y, 0 after the steps; [B, T]
  Dtype dtype;       // of the gradients, [B, T + 1, stride]; columns from A on are written as zero
  void* logits_BTA;
  void* q1_BTA;
  void* q2_BTA;
};

std::size_t sac_loss_scratch_bytes(const SacLossInput& input);
void sac_loss(const SacLossInput& input, const SacLossOutput& output, void* scratch, cudaStream_t stream);

}  // namespace engram
