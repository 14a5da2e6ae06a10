// The losses of proximal policy optimisation (Schulman et al. 2017) over whole episodes and their gradients, in one
// pass.
//
// At rows t = 0 .. T of episode b stand the policy's logits and V; of the time when the episode was played and judged
// log pi_old(a_t), V_old and the advantage A_t. With p = softmax of the logits, n = sum of steps_B, over the steps
// t < steps_B[b], with
//   d_t = log p_{t,a_t} - log pi_old(a_t),  r_t = exp(d_t),  A'_t = (A_t - mean) / deviation,  R_t = A_t + V_old,t
//   actor   = -1/n sum min(r_t A'_t, clip(r_t, 1 - clip, 1 + clip) A'_t)
//   critic  =  1/n sum min(e_t, value_error_bound),  e_t = (V_t - R_t)^2, or with value_clip the greater of this and
//              (V_old,t + clip(V_t - V_old,t, -value_clip, value_clip) - R_t)^2
//   entropy = -1/n sum_t sum_a p_{t,a} log p_{t,a}
//   kl      =  1/n sum (r_t - 1 - d_t)
//   total   = actor + value_weight critic - entropy_weight entropy + kl_weight kl
//   clipped = the part of the steps with |r_t - 1| > clip,  value = 1/n sum V_t
// value_clip or value_error_bound 0: none. The gradients are those of `total`, of V by column 0; they are zero at
// t >= steps_B[b] and in the columns to spare. What stands there in the inputs is not read.
//
// A row has A actions of `stride` elements and V in `value_stride`, A <= 256. All pointers are device memory, aligned
// as their types ask. Computed in float. The same input gives the same bits. Errors: std::runtime_error for a shape
// outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/common/cuda_support.h"
#include "kernels/learner/ppo_loss/row.h"

namespace engram {

constexpr int kMaxPpoActions = 256;

struct PpoLossInput {
  int batch;         // B
  int time;          // T: there are T + 1 rows
  int actions;       // A
  int stride;        // of a row of logits, >= A
  int value_stride;  // of a row of values, >= 1
  PpoRowWeights weights;
  const float* mean;  // this and the next two: one number
  const float* deviation;
  const float* kl_weight;
  const float* logits_BTA;        // [B, T + 1, stride]
  const float* value_BTA;         // [B, T + 1, value_stride]
  const std::int64_t* action_BT;  // this and the next three: [B, T]
  const float* log_prob_BT;
  const float* old_value_BT;
  const float* advantage_BT;
  const std::int64_t* steps_B;
};

enum PpoLossIndex { kPpoTotal, kPpoActor, kPpoCritic, kPpoEntropy, kPpoKl, kPpoClipped, kPpoValue, kPpoLosses };

struct PpoLossOutput {
  float* losses;      // [kPpoLosses]
  float* logits_BTA;  // gradients, in the shapes of the inputs
  float* value_BTA;
};

std::size_t ppo_loss_scratch_bytes(const PpoLossInput& input);
void ppo_loss(const PpoLossInput& input, const PpoLossOutput& output, void* scratch, cudaStream_t stream);

}  // namespace engram
