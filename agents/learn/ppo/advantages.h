// The part of advantages_of() (agents/learn/ppo/losses.h) for a GPU.
#pragma once

#include <torch/torch.h>

#include "agents/play/episode.h"

namespace engram {

// By a kernel (kernels/learner/advantages). value_BT1: float32, contiguous, on the batch's GPU, as the batch is.
torch::Tensor advantages_on_gpu(const EpisodeBatch& batch, const torch::Tensor& value_BT1, double gamma, double lambda);

}  // namespace engram
