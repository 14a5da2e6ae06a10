// Elman network, GRU and LSTM over fresh sequences on a CPU in float32, by the cells of kernels/recurrences/gated_rnn:
// rows in blocks that stay in a processor's cache, where LibTorch's are some dozen operations and as many tensors a
// step.
#pragma once

#include <torch/torch.h>

#include "memory/ops/recurrences/gated_rnn.h"

namespace engram::cpu {

// As cuda::gated_rnn(), in float32, of an input that nn/cpu/layers.h takes.
torch::Tensor gated_rnn(const GatedRnnWeights& weights, const torch::Tensor& input_BTD, const torch::Tensor& lengths_B);

}  // namespace engram::cpu
