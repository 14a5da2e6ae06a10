// Causal softmax attention over a window on a GPU as a block's branch (projected_branch.h), and the input of a GPT-2
// stack. They compute what transformer.cpp and stack.cpp define, for rows that all begin fresh; and a step, for acting.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "base/dropout.h"
#include "memory/fused/block.h"
#include "memory/ops/ops.h"
#include "nn/fused/gelu_mlp.h"
#include "nn/fused/residual_blocks.h"

namespace engram::cuda {

// x [B, T, D] + code [T, D], a view of rows that residual_blocks() reads where they stand.
torch::Tensor rows_with_code(const torch::Tensor& x_BTD, const torch::Tensor& code_TD);

struct AttentionWeights {
  AffineWeights query, key, value, output;  // all with a bias or none
};

struct WindowSettings {
  std::int64_t window;        // steps, the own one included; all of an episode and more is full attention
  bool rotary;                // queries and keys are turned to their steps
  DropoutKey weight_dropout;  // of rows [B, H, T] of T channels
  bool chunked = false;       // a step sees its chunk of `window` steps alone, up to itself
};

// Wo attention(Wq n + bq, Wk n + bk, Wv n + bv) + bo
std::unique_ptr<Branch> attention_branch(const AttentionWeights& weights, std::int64_t heads, const FreshRows& rows,
                                         const WindowSettings& settings);

// The branch of one step of rows at position_B, int64, which is read. ring: contiguous, float32, of settings.window
// slots; the step is written into it. Where supports_step_of_heads().
std::unique_ptr<ForwardBranch> attention_step_branch(const AttentionWeights& weights, std::int64_t heads,
                                                     const torch::Tensor& position_B, const KeyValueRing& ring,
                                                     const WindowSettings& settings);

}  // namespace engram::cuda
