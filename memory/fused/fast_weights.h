// The mixer of a block of the fast weights' family on a GPU as a residual branch (nn/fused/residual_blocks.h), over all
// rows of a batch that begin fresh, with a backward pass of its own: what fast_weights.cpp defines, for options whose
// memory has kernels (fast_weight_ops.h). DeltaNet's, which HQLT shares, is in fused_mixer.h. Rows [M, P], types and
// the clock of a dropout: as in nn/fused/rows.h.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "base/dropout.h"
#include "memory/backbones/fast_weights.h"
#include "nn/fused/residual_blocks.h"

namespace engram::fused {

// float32; undefined is what the options do not have.
struct FastWeightsWeights {
  torch::Tensor query_DD, key_DD, value_DD;
  torch::Tensor gate_DD;
  torch::Tensor write_HD, write_bias_H;              // of write strengths sigmoid and exponential
  torch::Tensor decay_HD, decay_bias_H, log_rate_H;  // of a scalar decay
  torch::Tensor convolution_CW, convolution_bias_C;  // [3 D, 4], [3 D]
  torch::Tensor skip_H;
  torch::Tensor directions_FC;  // of FAVOR+; they are not trained
  torch::Tensor head_norm_K;
  torch::Tensor output_DD;
};

struct FastWeightsSettings {
  std::int64_t batch, steps;
  FastWeightsOptions options;
  torch::Tensor length_B;  // int32
  DropoutKey query_dropout, key_dropout, value_dropout;
};

// Wo (gate(n) head_norm(fast weights(n)))
std::unique_ptr<Branch> fast_weights_branch(const FastWeightsWeights& weights, const FastWeightsSettings& settings);

}  // namespace engram::fused
