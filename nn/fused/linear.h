// Linear layers on a GPU with bias and an activation, in bfloat16 or float32 products, with a backward pass of their
// own. Rows [M, P] and types: as in nn/fused/rows.h.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "nn/fused/weights/side_work.h"

namespace engram::cuda {

enum class Activation { kNone, kRelu, kLeakyRelu };  // the last one with LibTorch's slope, kLeakySlope

inline constexpr float kLeakySlope = 0.01f;

// activation(W x + b)
struct LinearLayer {
  torch::Tensor weight_OI, bias_O;
  Activation activation;
};
// One layer after the other: x [M, P_in] -> [M, P_out] in x's type.
torch::Tensor linear_layers(const torch::Tensor& x_MP, const std::vector<LinearLayer>& layers);

// [relu](x W^T + b) of packed weights, and its backward pass's first half, for layers with weights of their own order:

torch::Tensor affine(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias, bool relu);
// With a float32 bias and result.
torch::Tensor affine_float(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias);

// From the gradient dy of y = relu(x), or of the leaky relu with this slope, to dx, which may be dy. The side makes the
// bias's gradient, dx's sum over the rows, which is returned.
torch::Tensor relu_backward(const torch::Tensor& dy, const torch::Tensor& y, const torch::Tensor& dx, SideWork& side,
                            float slope = 0);

}  // namespace engram::cuda
