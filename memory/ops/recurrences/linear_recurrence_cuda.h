// The elementwise linear recurrence on a GPU, by kernels/recurrences/linear_recurrence. Where engram is built without
// CUDA nothing is supported.
#pragma once

#include <torch/torch.h>

#include "base/support.h"

namespace engram::cuda {

// Whether the kernels take these tensors: on one GPU, contiguous, with no dimension of 0; a and b both float32,
// bfloat16 or complex64; a [D] (LRU, S5) and h0 float32 beside real b. Of b's type h0 is taken as well.
Support supports_linear_recurrence(const torch::Tensor& a, const torch::Tensor& b_BTD, const torch::Tensor& h0_BD);

// h_t = a_t h_{t-1} + b_t from h0 on, element by element: [B, T, D] of all h_t, of b's type. a is [B, T, D], or [D]
// where it is that of all rows and steps. Computed in float32; reads and writes every tensor once, forward and
// backward. Differentiable once, for complex numbers as PyTorch has it. Throws c10::Error with the reason where the
// kernels do not take the tensors.
torch::Tensor linear_recurrence(const torch::Tensor& a, const torch::Tensor& b_BTD, const torch::Tensor& h0_BD);

// The same of complex numbers whose parts are bfloat16, so that what a product in that type makes and takes is not
// converted: b and h are [B, T, D, 2], real part first, a [D] and states complex64. h is zero from lengths_B on (int64,
// 0 .. T); last: the state after it, not rounded.
struct PairedStates {
  torch::Tensor h_BTD2, last_BD;
};
Support supports_paired_linear_recurrence(const torch::Tensor& a_D, const torch::Tensor& b_BTD2,
                                          const torch::Tensor& h0_BD, const torch::Tensor& lengths_B);
PairedStates paired_linear_recurrence(const torch::Tensor& a_D, const torch::Tensor& b_BTD2, const torch::Tensor& h0_BD,
                                      const torch::Tensor& lengths_B);

}  // namespace engram::cuda
