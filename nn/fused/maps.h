// Linear maps of one input on a GPU as one product, with a backward pass of its own. Where LibTorch's operations define
// a part of a network: each map alone casts the input and its weights, and its gradients are two products more.
#pragma once

#include <torch/torch.h>

#include <vector>

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

}  // namespace engram::cuda
