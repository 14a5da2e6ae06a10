// The loss of proximal policy optimisation (Schulman et al. 2017) over whole episodes.
//
// At step t of an episode stand the policy's logits, V(h_t), and of the time when the episode was played and judged:
// log pi_old(a_t), V_old(h_t), the advantage A_t; R_t = A_t + V_old. With n valid steps and
//   d_t = log pi(a_t) - log pi_old(a_t),  r_t = exp(d_t),  A'_t = (A_t - mean) / deviation
//   actor   = -1/n sum min(r_t A'_t, clip(r_t, 1 - clip, 1 + clip) A'_t)                          (equation 7)
//   critic  =  1/n sum min(e_t, value_error_bound),  e_t = (V - R_t)^2, or with value_clip the greater of this and
//              (V_old + clip(V - V_old, -value_clip, value_clip) - R_t)^2
//   entropy = -1/n sum_t sum_a pi_a log pi_a
//   kl      =  1/n sum (r_t - 1 - d_t), of which expectation and gradient are those of KL(pi_old, pi) (Schulman 2020)
//   total   = actor + value_weight critic - entropy_weight entropy + kl_weight kl                  (equations 8 and 9)
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "agents/act/network.h"
#include "agents/learn/algorithm.h"
#include "agents/play/episode.h"
#include "base/normal_density.h"

namespace engram {

// What the heads have computed of the same features.
struct PpoHeads {
  torch::Tensor logits;  // [B, T+1, A or more]
  torch::Tensor value;   // [B, T+1, 1 or more]

  static PpoHeads of(const HeadGroup::Outputs& outputs) { return {outputs.learning.at(0), outputs.learning.at(1)}; }
};

struct PpoWeights {
  double clip, value_clip, value_error_bound;  // 0: none, of the latter two
  double value_weight, entropy_weight;
};

// Of which advantages are normalised, and the weight of kl: scalars on the device, in the dtype of the heads.
struct PpoScales {
  torch::Tensor mean, deviation, kl_weight;
};

// Scalars on the device, without gradient except for `total` where there are no `outputs`.
struct PpoLoss {
  torch::Tensor total, actor, critic, entropy, kl;
  torch::Tensor clipped;  // the part of the steps with |r_t - 1| > clip
  torch::Tensor value;    // mean of V(h_t)
  // Logits and values with the total's gradients, where these came with the loss.
  std::vector<torch::Tensor> outputs = {}, gradients = {};

  void backward() const { backward_of(total, outputs, gradients); }
};

// By LibTorch's operations, in the heads' dtype. Padding has no influence, NaN in it included.
PpoLoss plain_ppo_loss(const PpoHeads& heads, const EpisodeBatch& batch, const PpoScales& scales,
                       const PpoWeights& weights, std::int64_t num_actions);

// Independent normal distributions of the numbers of a continuous action, in the task's units.
struct NormalPolicy {
  torch::Tensor mean;           // [B, T+1, A]
  torch::Tensor log_deviation;  // [A], of all rows
};
// Of the distributions of such logarithms of deviations, nats: sum_a log_deviation_a + (1 + log(2 pi)) / 2. Scalar.
inline torch::Tensor entropy_of(const torch::Tensor& log_deviation_A) {
  return (log_deviation_A + (0.5 + kHalfLogTwoPi)).sum();
}

// The loss of a continuous action, whose log pi(a_t) is the logarithm of the density of what was drawn, before the task
// brings it into its bounds: with that, r_t is 1 before the first step. By LibTorch's operations, in the dtype of
// `mean`; value: [B, T+1, 1 or more]. Padding as in plain_ppo_loss().
PpoLoss normal_ppo_loss(const NormalPolicy& policy, const torch::Tensor& value, const EpisodeBatch& batch,
                        const PpoScales& scales, const PpoWeights& weights);

// plain_ppo_loss(), with `use_kernels` in float32 in one pass over the rows where there is one: cpu_ppo_loss(),
// fused_ppo_loss().
PpoLoss ppo_loss(const PpoHeads& heads, const EpisodeBatch& batch, const PpoScales& scales, const PpoWeights& weights,
                 std::int64_t num_actions, bool use_kernels);

// Generalised advantage estimation (Schulman et al. 2016, equation 16) of the batch's episodes, float32 [B, T], 0 in
// the padding: with delta_t = r_t + gamma V(h_{t+1}) - V(h_t), where V of the row after a termination counts 0 and of
// one after a truncation what it is,
//   A_t = delta_t + gamma lambda A_{t+1}
// value_BT1: V(h_t) of all rows, float32 [B, T+1]; what stands in its padding is not read. Without gradient; on a GPU
// by a kernel, without waiting.
torch::Tensor advantages_of(const EpisodeBatch& batch, const torch::Tensor& value_BT1, double gamma, double lambda);

}  // namespace engram
