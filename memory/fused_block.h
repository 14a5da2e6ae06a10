// The two halves of a DeltaNet or HQLT block on a GPU, each one differentiable operation over all rows of a batch with
// a backward pass of its own: a dozen kernels and products in place of some eighty. They compute what blocks.h,
// deltanet.cpp and hqlt.cpp define, for rows that all begin fresh.
//
// M = B * T rows of D channels, stored as P channels, D rounded up to a multiple of 16, of which those behind D are
// zero. A dropout's clock must outlive the backward pass. x is float32 or bfloat16; products are computed in x's type
// and summed in float32; parameters and their gradients are float32; norms, gates, states and softmax are float32
// inside.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/dropout.h"
#include "kernels/block/mixer.h"

namespace engram::fused {

constexpr int kWidthMultiple = 16;
constexpr int kMaxWidth = 1024, kMaxHeadWidth = 128;  // of D and D / heads

// Whether x and a block of `heads` heads lie within what these operations take.
bool takes(const torch::Tensor& x, std::int64_t width, std::int64_t heads);

// dropout(x [..., D]) as [M, P], and back to `shape`, [..., D], a view. Neither they nor their backward passes need
// rows to be D apart: a view that from_rows() gave is read where it stands.
torch::Tensor to_rows(const torch::Tensor& x, const DropoutPlace& dropout = {});
torch::Tensor from_rows(const torch::Tensor& x_MP, const std::vector<std::int64_t>& shape);

struct MixerWeights {
  torch::Tensor norm_D;  // of the block's input
  torch::Tensor query_DD, key_DD, value_DD;
  torch::Tensor beta_HD;
  torch::Tensor gate_GD;  // undefined: the mix has none
  torch::Tensor head_norm_K;
  torch::Tensor output_DD;
};

struct MixerSettings {
  std::int64_t batch, steps;
  int width, heads;
  MixKind mix;  // kFast: no window
  int window;   // steps
  bool rotary;
  float beta_factor;
  torch::Tensor lengths_B;  // int64
  torch::Tensor length_B;   // the same as int32
  DropoutPlace query_dropout, key_dropout, value_dropout, output_dropout;
};

// x + dropout(Wo head_norm(mix(delta rule, window attention)(norm(x))))
torch::Tensor mixer(const torch::Tensor& x_MP, const MixerWeights& weights, const MixerSettings& settings);

struct SwiGluWeights {
  torch::Tensor norm_D;
  torch::Tensor gate_ID, up_ID;
  torch::Tensor down_DI;
};

// x + dropout(Wdown (silu(Wgate n) * Wup n)), n = norm(x)
torch::Tensor swiglu(const torch::Tensor& x_MP, const SwiGluWeights& weights, const DropoutPlace& dropout);

// x / sqrt(mean(x^2) + epsilon) * weight over the first D of P channels
torch::Tensor rms_norm(const torch::Tensor& x_MP, const torch::Tensor& weight_D);

// a b in the operands' type, summed in float32; the result in the operands' type or in float32.
torch::Tensor product(const torch::Tensor& a, const torch::Tensor& b);
torch::Tensor product_float(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace engram::fused
