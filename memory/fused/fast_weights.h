// The mixer of a block with fast weights on a GPU, alone or beside a window of attention, as a branch
// (projected_branch.h): what fast_weights.cpp, hqlt.cpp and hqlt_delayed.cpp define, for rows that all begin fresh and
// options whose memory has kernels (fast_weight_ops.h). And a step of it, for acting.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "base/dropout.h"
#include "base/support.h"
#include "kernels/fast_weights/delayed_memory/delay.h"
#include "memory/backbones/fast_weights/fast_weights.h"
#include "memory/core/backbone_options.h"
#include "memory/fused/block.h"
#include "nn/fused/residual_blocks.h"

namespace engram::cuda {

// float32; undefined is what the options do not have.
struct FastWeightsWeights {
  torch::Tensor query_DD, key_DD, value_DD;
  torch::Tensor gate_DD, mix_gate_GD;                // the output's, and that of a window's mix
  torch::Tensor write_HD, write_bias_H;              // of write strengths sigmoid and exponential
  torch::Tensor decay_HD, decay_bias_H, log_rate_H;  // of a scalar decay
  torch::Tensor convolution_CW, convolution_bias_C;  // [3 D, 4], [3 D]; of a pass over sequences
  torch::Tensor skip_H;
  torch::Tensor directions_FC;  // of FAVOR+; they are not trained
  torch::Tensor head_norm_K;
  torch::Tensor output_DD;
};

// A window of attention over the same queries, keys and values, which a convolution, where there is one, and dropout
// have been through before both memories.
struct BesideWindow {
  Mixing mixing;
  bool branch_norm;
  int window;  // steps
  bool rotary;
  std::optional<Delay> delay;  // of the fast weights; none: they take each step at once
};

struct FastWeightsSettings {
  FastWeightsOptions options;
  DropoutKey query_dropout, key_dropout, value_dropout;
  std::optional<BesideWindow> beside;  // then options without skip
};

// Wo (gate(n) head_norm(m)), m = fast weights(n) or mix(fast weights, window attention)(n)
std::unique_ptr<Branch> fast_weights_branch(const FastWeightsWeights& weights, const FastWeightsSettings& settings,
                                            const FreshRows& rows);

// What a step carries: float32 tensors of the layer's state, which it writes into; undefined is what there is not.
struct FastWeightsStepState {
  torch::Tensor fast_BHKV;
  torch::Tensor key_sum_BHK;  // of an attention norm
  torch::Tensor position_B;   // with a window, int64, which is read; and its rings:
  torch::Tensor key_BSHK, value_BSHV;
  torch::Tensor beta_BSH1;  // of a delay by chunk
};
// Whether a step with these fast weights has kernels, alone or beside a window, with a delay or without.
Support supports_fast_weights_step(const FastWeightsOptions& options, torch::ScalarType dtype, torch::Device device);
// The branch of one step.
std::unique_ptr<ForwardBranch> fast_weights_step_branch(const FastWeightsWeights& weights,
                                                        const FastWeightsSettings& settings,
                                                        const FastWeightsStepState& state);

}  // namespace engram::cuda
