// The two residual branches of a DeltaNet or HQLT block on a GPU (residual_stack.h), over all rows of a batch, with
// backward passes of their own: a dozen kernels and products in place of some eighty. They compute what
// blocks.h, deltanet.cpp and hqlt.cpp define, for rows that all begin fresh.
//
// M = B * T rows of D channels, stored as P channels, D rounded up to a multiple of 16, of which those from D on are
// zero. A dropout's clock must outlive the backward pass. x is float32 or bfloat16; products are computed in x's type
// and summed in float32; parameters and their gradients are float32; norms, gates, states and softmax are float32
// inside.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/dropout.h"
#include "kernels/block/mixer.h"
#include "memory/residual_stack.h"

namespace engram::fused {

constexpr int kMaxWidth = 1024, kMaxHeadWidth = 128;  // of D and D / heads

// Whether x and a block of `heads` heads lie within what these operations take.
bool takes(const torch::Tensor& x, std::int64_t width, std::int64_t heads);

// x [..., D] as [M, P], and back to `shape`, [..., D], a view. Neither they nor their backward passes need rows to be D
// apart: a view that from_rows() gave is read where it stands.
torch::Tensor to_rows(const torch::Tensor& x);
torch::Tensor from_rows(const torch::Tensor& x_MP, const std::vector<std::int64_t>& shape);

// An image's bytes x [M, X] as numbers of 0 .. 1, rows [M, P] of `dtype`.
torch::Tensor image_rows(const torch::Tensor& x_MX, torch::ScalarType dtype);

struct MixerWeights {
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
  DropoutPlace query_dropout, key_dropout, value_dropout;
};

// Wo head_norm(mix(delta rule, window attention)(n))
std::unique_ptr<Branch> mixer_branch(const MixerWeights& weights, const MixerSettings& settings);

struct SwiGluWeights {
  torch::Tensor gate_ID, up_ID;
  torch::Tensor down_DI;
};

// Wdown (silu(Wgate n) * Wup n) for rows of `dtype`
std::unique_ptr<Branch> swiglu_branch(const SwiGluWeights& weights, torch::ScalarType dtype);

// a b in the operands' type, summed in float32; the result in the operands' type or in float32.
torch::Tensor product(const torch::Tensor& a, const torch::Tensor& b);
torch::Tensor product_float(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace engram::fused
