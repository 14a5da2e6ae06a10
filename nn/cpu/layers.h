// Layers on a CPU in float32 by the loops of kernels.h, each one differentiable operation with a backward pass of its
// own: LibTorch's operations for the same are dozens of small ones, and as many passes over memory. Not for second
// derivatives.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/dropout.h"

namespace engram::cpu {

// Whether the functions below take it: float32 on the CPU, not empty, and not under PlainOperations.
bool takes(const torch::Tensor& x);
bool takes(torch::Device device, torch::ScalarType dtype);

// x [..., I] -> x weight^T + bias [..., O]; bias may be undefined.
torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight_OI, const torch::Tensor& bias_O);

// (residual +) dropout(x [..., C]); residual may be undefined. The key must drop.
torch::Tensor dropout(const torch::Tensor& x, const torch::Tensor& residual, const DropoutKey& key);

// factor x weight / sqrt(mean x^2 + epsilon) over the last dimension; weight may be undefined.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight_C, double epsilon, double factor = 1);

// (silu(x gate^T) * x up^T) down^T
torch::Tensor swiglu(const torch::Tensor& x, const torch::Tensor& gate_ID, const torch::Tensor& up_ID,
                     const torch::Tensor& down_DI);

// Three layers with a relu after each but the last, on the same features [..., D]; each head [..., A].
struct HeadWeights {
  torch::Tensor weight1, bias1, weight2, bias2, weight3, bias3;
};
// The outputs of the learning heads, then those of the targets, which have no gradient. All heads have the same sizes.
std::vector<torch::Tensor> heads(const torch::Tensor& features, const std::vector<HeadWeights>& learning,
                                 const std::vector<HeadWeights>& targets);

}  // namespace engram::cpu
