// The mixer of a DeltaNet or HQLT block on a GPU as a residual branch (nn/fused/residual_blocks.h), over all rows of a
// batch, with a backward pass of its own. It computes what fast_weights.cpp and hqlt.cpp define, for rows that all
// begin fresh. And a step of the delayed HQLTs, as hqlt_delayed.cpp defines it, for acting. Rows [M, P], types and the
// clock of a dropout: as in nn/fused/rows.h.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/dropout.h"
#include "memory/core/backbone_options.h"
#include "memory/fused/block.h"
#include "nn/fused/residual_blocks.h"

namespace engram::fused {

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
  std::optional<Mixing> mixing;  // none: fast weights alone, without a window
  bool branch_norm;              // of a mixing
  int window;                    // steps
  bool rotary;
  float beta_factor;
  torch::Tensor lengths_B;  // int64
  torch::Tensor length_B;   // the same as int32
  DropoutKey query_dropout, key_dropout, value_dropout;
};

// Wo head_norm(mix(delta rule, window attention)(n))
std::unique_ptr<Branch> mixer_branch(const MixerWeights& weights, const MixerSettings& settings);

// What a step of a delayed HQLT carries: the positions int64 [B], which it reads, and float32 tensors of the layer's
// state, which it writes into.
struct DelayedStepState {
  bool chunk;  // else stream
  torch::Tensor position_B;
  torch::Tensor fast_BHKV, key_BSHK, value_BSHV;
  torch::Tensor beta_BSH1;  // of a chunk
};
Support delayed_step_support(std::int64_t width, std::int64_t heads, torch::ScalarType dtype, torch::Device device);
// Wo head_norm(mix(fast weights, window attention)(n)) of one step. `settings` with one step, without lengths.
std::unique_ptr<ForwardBranch> delayed_step_branch(const MixerWeights& weights, const MixerSettings& settings,
                                                   const DelayedStepState& state);

}  // namespace engram::fused
