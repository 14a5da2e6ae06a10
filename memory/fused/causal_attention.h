// Causal attention of a GPT-2 block on a GPU as a residual branch (nn/fused/residual_blocks.h), and the stack's input.
// They compute what transformer.cpp defines, for rows that all begin fresh. Rows [M, P], types and the clock of a
// dropout: as in nn/fused/rows.h.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "base/dropout.h"
#include "memory/fused/block.h"
#include "nn/fused/gelu_mlp.h"
#include "nn/fused/residual_blocks.h"

namespace engram::fused {

// x [B, T, D] + code [T, D], a view of rows that residual_blocks() reads where they stand.
torch::Tensor rows_with_code(const torch::Tensor& x_BTD, const torch::Tensor& code_TD);

struct CausalAttentionWeights {
  AffineWeights query, key, value, output;
};

struct CausalAttentionSettings {
  std::int64_t batch, steps;
  int width, heads;
  torch::Tensor lengths_B;    // int64
  DropoutKey weight_dropout;  // of rows [B, H, T] of T channels
};

// Wo attention(Wq n + bq, Wk n + bk, Wv n + bv) + bo
std::unique_ptr<Branch> causal_attention_branch(const CausalAttentionWeights& weights,
                                                const CausalAttentionSettings& settings);

}  // namespace engram::fused
