// The losses of discrete soft actor-critic (Christodoulou 2019) over whole episodes: pure functions of tensors.
// Shapes: B episodes, T steps, A actions. mask is 1 for valid steps, 0 for padding; what stands in the padding of
// rewards, actions (valid numbers) and targets has no influence, NaN included. Any floating dtype, the same for all
// arguments.
#pragma once

#include <torch/torch.h>

namespace engram::sac {

// log(max(p, 1e-8)), element by element.
torch::Tensor clamped_log(const torch::Tensor& probabilities);

// r_t + gamma (1 - terminated_t) sum_a pi(a|h_{t+1}) [min(Q1', Q2')(h_{t+1}, a) - alpha log pi(a|h_{t+1})], without
// gradient. probabilities, target_q1, target_q2: of rows 1 .. T, [B, T, A]; alpha: scalar. Returns [B, T].
torch::Tensor bellman_targets(const torch::Tensor& reward_BT, const torch::Tensor& terminated_BT,
                              const torch::Tensor& next_probabilities_BTA, const torch::Tensor& next_target_q1_BTA,
                              const torch::Tensor& next_target_q2_BTA, const torch::Tensor& alpha, double gamma);

// Masked mean of sum_a pi(a|h_t) [alpha log pi(a|h_t) - min(Q1, Q2)(h_t, a)]; no gradient through Q or alpha. Scalar.
torch::Tensor actor_loss(const torch::Tensor& probabilities_BTA, const torch::Tensor& q1_BTA,
                         const torch::Tensor& q2_BTA, const torch::Tensor& alpha, const torch::Tensor& mask_BT);

// Masked mean of the policy's entropy, in nats. Scalar.
torch::Tensor mean_entropy(const torch::Tensor& probabilities_BTA, const torch::Tensor& mask_BT);

}  // namespace engram::sac
