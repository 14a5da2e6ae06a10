// sac_loss() by one kernel for all losses and the gradients of logits and Q values (kernels/learner/sac_loss).
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "agents/learn/sac/sac.h"
#include "base/support.h"

namespace engram {

// Heads' outputs of this type on this device: float32 on a GPU, and no more actions than the kernel takes.
Support supports_fused_sac_loss(torch::Device device, torch::ScalarType outputs, std::int64_t num_actions);

// heads: supported. alpha: float32, one number on the GPU.
SacLoss fused_sac_loss(const SacHeads& heads, const EpisodeBatch& batch, const torch::Tensor& alpha, double gamma,
                       std::int64_t num_actions);

}  // namespace engram
