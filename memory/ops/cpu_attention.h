// Causal attention over a window on a CPU in float32 (nn/cpu/kernels.h): blocks of queries with the keys that they see,
// where the keys stand, and nothing kept of the weights.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "nn/layers/dropout.h"

namespace engram::cpu {

// WindowPlan::attend() (memory/ops/ops.h) of rows without a past: o [B, T, H, V]. weight_dropout: as there, of rows [B,
// H, T] of T channels.
torch::Tensor attention(const torch::Tensor& query_BTHK, const torch::Tensor& key_BTHK, const torch::Tensor& value_BTHV,
                        std::int64_t window, const Dropout* weight_dropout);

}  // namespace engram::cpu
