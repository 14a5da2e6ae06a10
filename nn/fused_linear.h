// Linear layers on a GPU with bias and relu, in bfloat16 or float32 products, with a backward pass of their own. Rows
// [M, P] and types: as in fused_rows.h.
#pragma once

#include <torch/torch.h>

#include "nn/side_work.h"

namespace engram::fused {

// [relu](W x + b): x [M, P_in] -> [M, P_out] in x's type.
torch::Tensor linear(const torch::Tensor& x_MP, const torch::Tensor& weight_OI, const torch::Tensor& bias_O, bool relu);

// [relu](x W^T + b) of packed weights, and its backward pass's first half, for layers with weights of their own order:

torch::Tensor affine(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias, bool relu);

// The bias's gradient, which is the side's, and what it reads until it has ended.
struct BiasGradient {
  torch::Tensor bias, scratch;
};
// Through relu where y is given: dx, which may be dy.
BiasGradient relu_backward(const torch::Tensor& dy, const torch::Tensor& y, const torch::Tensor& dx,
                           const SideWork& side);

}  // namespace engram::fused
