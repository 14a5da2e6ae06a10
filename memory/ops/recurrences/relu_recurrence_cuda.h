// The recurrence of independently recurrent networks on a GPU, by kernels/recurrences/relu_recurrence. Where engram is
// built without CUDA nothing is supported.
#pragma once

#include <torch/torch.h>

#include "base/support.h"

namespace engram::cuda {

// Whether the kernels take them: float32 on one GPU, of shapes [D], [B, T, D] and [B, D], none of them 0.
Support supports_relu_recurrence(const torch::Tensor& weight_D, const torch::Tensor& b_BTD, const torch::Tensor& h0_BD);

// relu_recurrence.h's. Throws c10::Error with the reason where the kernels do not take the tensors.
torch::Tensor relu_recurrence(const torch::Tensor& weight_D, const torch::Tensor& b_BTD, const torch::Tensor& h0_BD);

}  // namespace engram::cuda
