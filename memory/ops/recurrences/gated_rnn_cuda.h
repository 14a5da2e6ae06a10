// Elman network, GRU and LSTM over fresh sequences on a GPU, by kernels/recurrences/gated_rnn. Where engram is built
// without CUDA nothing is supported.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "base/support.h"
#include "memory/ops/recurrences/gated_rnn.h"

namespace engram::cuda {

// Whether the kernels take a cell of so many channels, with products in `dtype` on `device`, the current one.
Support supports_gated_rnn(GatedCell cell, std::int64_t width, torch::ScalarType dtype, torch::Device device);

// h [B, T, D] of one layer, bfloat16 as its input [B, T, I]; zero behind each row's lengths_B (int64). What follows the
// lengths in the input must be finite. Differentiable once. The cell is the one of the weights' shape.
// Throws c10::Error where the kernels do not take the tensors.
torch::Tensor gated_rnn(const GatedRnnWeights& weights, const torch::Tensor& input_BTD, const torch::Tensor& lengths_B);

}  // namespace engram::cuda
