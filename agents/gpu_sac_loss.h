// sac_loss() on a GPU: all losses and the gradients of logits and Q values in one kernel (kernels/sac_loss).
#pragma once

#include <torch/torch.h>

#include "agents/sac_learner.h"

namespace engram {

// heads: float32 on a GPU. alpha: float32, one number on the GPU.
SacLoss gpu_sac_loss(const AgentNetwork::HeadOutputs& heads, const EpisodeBatch& batch, const torch::Tensor& alpha,
                     double gamma, std::int64_t num_actions);

}  // namespace engram
