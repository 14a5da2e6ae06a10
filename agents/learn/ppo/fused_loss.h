// ppo_loss() by one kernel for all losses and the gradients of logits and values (kernels/learner/ppo_loss).
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "agents/learn/ppo/losses.h"
#include "base/support.h"

namespace engram {

// Heads' outputs of this type on this device: float32 on a GPU, and no more actions than the kernel takes.
Support supports_fused_ppo_loss(torch::Device device, torch::ScalarType outputs, std::int64_t num_actions);

// heads: supported. scales: float32 on the GPU.
PpoLoss fused_ppo_loss(const PpoHeads& heads, const EpisodeBatch& batch, const PpoScales& scales,
                       const PpoWeights& weights, std::int64_t num_actions);

}  // namespace engram
