// The recurrence of independently recurrent networks (Li et al. 2018, arXiv:1803.04831, equation 4).
//
// Shapes: B batch, T time, D channels.
#pragma once

#include <torch/torch.h>

namespace engram {

// h_t = relu(b_t + u h_{t-1}) from h0 on, channel by channel: [B, T, D] of all h_t. All of one type and device.
// Differentiable once: in float32 by loops on a CPU, by kernels/recurrences/relu_recurrence on a GPU; else, and under
// PlainOperations, by the next one.
torch::Tensor relu_recurrence(const torch::Tensor& weight_D, const torch::Tensor& b_BTD, const torch::Tensor& h0_BD);

// The same by LibTorch's operations, step by step.
torch::Tensor plain_relu_recurrence(const torch::Tensor& weight_D, const torch::Tensor& b_BTD,
                                    const torch::Tensor& h0_BD);

}  // namespace engram
