// Several heads on the same rows on a GPU, in bfloat16 or float32 products, with a backward pass of their own: a
// product a layer, or all layers in one kernel (hidden width 64, 128 or 256). They compute what heads.h defines. Rows
// [M, P] and types: as in nn/fused/rows.h.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/support.h"

namespace engram::cuda {

constexpr int kMaxHeadHidden = 512;

struct HeadSizes {
  std::int64_t width, hidden, actions;
  int learning, targets;  // heads
};
// Whether heads() takes them: a hidden width that is a multiple of 8, at most kMaxHeadHidden.
Support supports_heads(const HeadSizes& sizes, torch::ScalarType dtype, torch::Device device);
// Whether it does so in one kernel, by sizes and type; and on this device, the current one, with this build too.
Support supports_one_kernel_heads_sizes(const HeadSizes& sizes, torch::ScalarType dtype);
Support supports_one_kernel_heads(const HeadSizes& sizes, torch::ScalarType dtype, torch::Device device);

// Maps D -> hidden -> hidden -> A with relu between.
struct HeadWeights {
  torch::Tensor weight1_ID, bias1_I;
  torch::Tensor weight2_II, bias2_I;
  torch::Tensor weight3_AI, bias3_A;
};

// x [..., D] -> for each head float32 [..., A rounded up to a multiple of 8], A numbers and then zeros; products are
// in x's type, the targets' outputs have no gradient.
struct HeadOutputs {
  std::vector<torch::Tensor> learning, targets;
};
HeadOutputs heads(const torch::Tensor& x, const std::vector<HeadWeights>& learning,
                  const std::vector<HeadWeights>& targets);

}  // namespace engram::cuda
