// sLSTM over fresh sequences on a GPU, by kernels/recurrences/slstm. Where engram is built without CUDA nothing is
// supported.
#pragma once

#include <torch/torch.h>

#include "base/support.h"

namespace engram::cuda {

// Whether the kernels take these tensors: on one GPU, float32, [B, T, H, 4K] and [H, K, 4K] with no dimension of 0 and
// K at most 64.
Support supports_slstm(const torch::Tensor& gates_BTHX, const torch::Tensor& recurrent_HKX);

// h [B, T, H, K] of memory/backbones/recurrent/slstm.h from gates W x + b, in the order input, forget, candidate,
// output; zero behind each row's lengths_B (int64). Differentiable once. Throws c10::Error with the reason where the
// kernels do not take the tensors.
torch::Tensor slstm(const torch::Tensor& gates_BTHX, const torch::Tensor& recurrent_HKX,
                    const torch::Tensor& lengths_B);

}  // namespace engram::cuda
