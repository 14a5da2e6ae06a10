// What the losses of learners over whole episodes have in common. B episodes, T steps, A actions; mask is 1 for valid
// steps, 0 for padding; what stands in the padding of actions (valid numbers) and targets has no influence, NaN
// included. Any floating dtype, the same for all arguments.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "agents/act/network.h"
#include "agents/play/episode.h"
#include "base/support.h"

namespace engram {

// The backbone's outputs at all rows of the batch, [B, T+1, D]. Padding has no influence on those of valid rows.
torch::Tensor features_of(AgentNetwork& network, const EpisodeBatch& batch);

// A head's numbers, of which the kernels' heads have columns to spare: [..., A or more] -> [..., A].
inline torch::Tensor columns(const torch::Tensor& x, std::int64_t count) {
  return x.size(-1) == count ? x : x.narrow(-1, 0, count);
}

// q(h_t, a_t): [B, T, A], [B, T] -> [B, T]
inline torch::Tensor taken(const torch::Tensor& q_BTA, const torch::Tensor& action_BT) {
  return q_BTA.gather(-1, action_BT.unsqueeze(-1)).squeeze(-1);
}

// Sum over the valid steps divided by their number. Scalar.
torch::Tensor masked_mean(const torch::Tensor& value_BT, const torch::Tensor& mask_BT);

// Masked mean of (Q(h_t, a_t) - target_t)^2. Scalar.
torch::Tensor critic_loss(const torch::Tensor& q_BTA, const torch::Tensor& action_BT, const torch::Tensor& target_BT,
                          const torch::Tensor& mask_BT);

// How a loss is computed that has loops of its own on a CPU, and on a GPU a kernel where `kernel` supports it.
Road loss_road_of(const AgentNetwork& network, torch::Device device, const Support& kernel);

}  // namespace engram
