// Products of few rows on a GPU in bfloat16 by kernels/small_product.
#pragma once

#include <torch/torch.h>

#include <optional>

namespace engram::fused {

// [relu](a b [+ bias]), a [M, K], b [K, N] or the view of a transpose, bias [N] or undefined, as [M, N] without a
// gradient; nothing where the kernel is not meant for the operands.
std::optional<torch::Tensor> small_product(const torch::Tensor& a, const torch::Tensor& b,
                                           const torch::Tensor& bias = {}, bool relu = false);

}  // namespace engram::fused
