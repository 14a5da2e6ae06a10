// The parts of advantages_of() (agents/learn/ppo/losses.h) and of advantages' scaling for a GPU.
#pragma once

#include <torch/torch.h>

#include "agents/play/episode.h"

namespace engram {

// By a kernel (kernels/learner/advantages). value_BT1: float32, contiguous, on the batch's GPU, as the batch is.
torch::Tensor advantages_on_gpu(const EpisodeBatch& batch, const torch::Tensor& value_BT1, double gamma, double lambda);

// Sums of A^0, A and A^2 over the batch's steps, float64 [3]. advantage_BT: float32, on the batch's GPU.
torch::Tensor moments_on_gpu(const EpisodeBatch& batch, const torch::Tensor& advantage_BT);

}  // namespace engram
