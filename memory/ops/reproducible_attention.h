// Softmax attention on a GPU with gradients that are the same bits each time.
#pragma once

#include <torch/torch.h>

namespace engram::cuda {

// softmax(q k^T / sqrt(K) + bias) v of [N, H, ., .] on a GPU, in the type in which products are computed there
// (nn/device/autocast.h). `mask`, unless undefined, is bias or, where it is bool, says which keys count; it broadcasts
// to [N, H, Q, U] and has no gradient. `causal`: query i sees the keys up to i; without a mask. Differentiable once.
//
// By LibTorch's memory-efficient kernels, its own composition of products in float64. What LibTorch takes by itself is
// not reproducible: gradients of cuDNN's and flash attention, and of the memory-efficient kernels where these split the
// keys, are sums in an order that differs from run to run. Here the keys are one part. (cuDNN's attention, which
// LibTorch prefers in bfloat16 on Hopper, also compiles while the program runs and has corrupted heaps.)
torch::Tensor reproducible_attention(const torch::Tensor& query_NHQK, const torch::Tensor& key_NHUK,
                                     const torch::Tensor& value_NHUV, const torch::Tensor& mask, bool causal);

}  // namespace engram::cuda
