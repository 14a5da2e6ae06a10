// Products of few rows on a GPU in bfloat16 by kernels/block/small_product.
#pragma once

#include <torch/torch.h>

#include <optional>

namespace engram::cuda {

// [relu](a b [+ bias]), a [M, K], b [K, N] or the view of a transpose, bias [N] or undefined, as [M, N] without a
// gradient; nothing where the kernel is not meant for the operands.
std::optional<torch::Tensor> small_product(const torch::Tensor& a, const torch::Tensor& b,
                                           const torch::Tensor& bias = {}, bool relu = false);

// The same as float32 [M, N], with a float32 bias and without a relu.
std::optional<torch::Tensor> small_product_float(const torch::Tensor& a, const torch::Tensor& b,
                                                 const torch::Tensor& bias);

// Parts [P, M, N] in float32 whose sum is a^T b, a [R, M], b [R, N]; nothing where the kernel is not meant for them.
std::optional<torch::Tensor> small_gradient(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace engram::cuda
