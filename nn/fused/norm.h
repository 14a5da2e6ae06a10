// Norms of rows on a GPU by kernels/block/row_norm.h as differentiable operations, where no kernel around them takes
// them along (residual_blocks.h): x [..., D] -> [..., D] in x's type, computed in float32.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "base/support.h"
#include "nn/fused/residual_blocks.h"

namespace engram::cuda {

// Whether the kernel takes rows of so many channels: a multiple of 8 up to 1,024.
Support supports_norm(std::int64_t channels);
// Whether it takes x: such rows in float32 or bfloat16 on a GPU, not empty, and not under PlainOperations.
bool takes_rows(const torch::Tensor& x);
// And with float32 weights beside x.
bool takes_norm(const torch::Tensor& x, const Norm& norm);

torch::Tensor normed(const torch::Tensor& x, const Norm& norm);

// (x - mean(x)) / sqrt(var(x) + 1e-5): a layer norm without gain and bias.
torch::Tensor layer_normed(const torch::Tensor& x);

// x / sqrt(|x|^2 + epsilon)
torch::Tensor l2_normed(const torch::Tensor& x, double epsilon);

}  // namespace engram::cuda
