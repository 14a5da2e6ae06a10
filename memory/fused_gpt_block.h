// The two residual branches of a GPT-2 block on a GPU (residual_stack.h), and the stack's input. They compute what
// transformer.cpp defines, for rows that all begin fresh. Rows [M, P], types and the clock of a dropout:
// as in fused_block.h.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "base/dropout.h"
#include "memory/residual_stack.h"

namespace engram::fused {

struct AffineWeights {
  torch::Tensor weight_OI, bias_O;
};

// x [B, T, D] + code [T, D], a view of rows that residual_stack() reads where they stand.
torch::Tensor rows_with_code(const torch::Tensor& x_BTD, const torch::Tensor& code_TD);

struct CausalAttentionWeights {
  AffineWeights query, key, value, output;
};

struct CausalAttentionSettings {
  std::int64_t batch, steps;
  int width, heads;
  torch::Tensor lengths_B;      // int64
  DropoutPlace weight_dropout;  // of rows [B, H, T] of T channels
};

// Wo attention(Wq n + bq, Wk n + bk, Wv n + bv) + bo
std::unique_ptr<Branch> causal_attention_branch(const CausalAttentionWeights& weights,
                                                const CausalAttentionSettings& settings);

struct GeluMlpWeights {
  AffineWeights up, down;
};

// Wdown gelu(Wup n + bup) + bdown, gelu in its tanh form
std::unique_ptr<Branch> gelu_mlp_branch(const GeluMlpWeights& weights);

}  // namespace engram::fused
