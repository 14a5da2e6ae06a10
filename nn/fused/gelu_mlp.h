// The MLP of a GPT-2 block on a GPU as a residual branch (residual_blocks.h), with a backward pass of its own. Rows
// [M, P] and types: as in nn/fused/rows.h.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "nn/fused/residual_blocks.h"

namespace engram::cuda {

struct AffineWeights {
  torch::Tensor weight_OI, bias_O;  // a bias may be undefined where it says so
};

struct GeluMlpWeights {
  AffineWeights up, down;
};

// Wdown gelu(Wup n + bup) + bdown, gelu in its tanh form
std::unique_ptr<Branch> gelu_mlp_branch(const GeluMlpWeights& weights);

// Weight and bias, where there is one, of each, in order.
std::vector<torch::Tensor> list_of(std::initializer_list<AffineWeights> parts);

}  // namespace engram::cuda
