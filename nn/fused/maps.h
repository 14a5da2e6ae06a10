// Linear maps on a GPU, with backward passes of their own: of one input as one product, or one after the other. Where
// LibTorch's operations define a part of a network: each map alone casts the input and its weights, and its gradients
// are two products more.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "base/support.h"

namespace engram::cuda {

// W x + b
struct LinearMap {
  torch::Tensor weight_OI;
  torch::Tensor bias_O;  // undefined: none
};

// x [..., I], at least one row -> of each map [..., O], in x's type, float32 or bfloat16, in which products are
// computed; sums are float32. Parameters and their gradients are float32. A float32 x of maps without biases may also
// stand on a CPU.
std::vector<torch::Tensor> linear_maps(const torch::Tensor& x, const std::vector<LinearMap>& maps);

// z + scale x, a map of each channel: z, x [..., D] of one type and rows that a norm's kernel takes (norm.h), scale [D]
// float32 -> [..., D] in their type, computed in float32.
torch::Tensor add_scaled(const torch::Tensor& z, const torch::Tensor& scale_D, const torch::Tensor& x);

// Whether relu_layers() takes such maps of such an input.
Support supports_relu_layers(const std::vector<LinearMap>& maps, torch::ScalarType dtype, torch::Device device);
// relu(W x + b) of one map after the other, each with a bias: x [..., I] on a GPU, at least one row -> [..., O] of the
// last, in x's type, float32 or bfloat16, in which products are computed.
torch::Tensor relu_layers(const torch::Tensor& x, const std::vector<LinearMap>& maps);

}  // namespace engram::cuda
