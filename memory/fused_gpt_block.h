// The two halves of a GPT-2 block and the ends of its stack on a GPU, each one differentiable operation over all rows
// of a batch with a backward pass of its own. They compute what transformer.cpp defines, for rows that all begin fresh.
// Rows [M, P], types and the clock of a dropout: as in fused_block.h.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "base/dropout.h"

namespace engram::fused {

struct AffineWeights {
  torch::Tensor weight_OI, bias_O;
};

// x [B, T, D] + code [T, D], as rows.
torch::Tensor rows_with_code(const torch::Tensor& x_BTD, const torch::Tensor& code_TD);

// (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias over the first D of P channels
torch::Tensor layer_norm(const torch::Tensor& x_MP, const AffineWeights& norm);

struct CausalAttentionWeights {
  AffineWeights norm;
  AffineWeights query, key, value, output;
};

struct CausalAttentionSettings {
  std::int64_t batch, steps;
  int width, heads;
  torch::Tensor lengths_B;      // int64
  DropoutPlace weight_dropout;  // of rows [B, H, T] of T channels
  DropoutPlace output_dropout;
};

// x + dropout(Wo attention(Wq n + bq, Wk n + bk, Wv n + bv) + bo), n = layer_norm(x)
torch::Tensor causal_attention(const torch::Tensor& x_MP, const CausalAttentionWeights& weights,
                               const CausalAttentionSettings& settings);

struct GeluMlpWeights {
  AffineWeights norm;
  AffineWeights up, down;
};

// x + dropout(Wdown gelu(Wup n + bup) + bdown), n = layer_norm(x), gelu in its tanh form
torch::Tensor gelu_mlp(const torch::Tensor& x_MP, const GeluMlpWeights& weights, const DropoutPlace& dropout);

}  // namespace engram::fused
