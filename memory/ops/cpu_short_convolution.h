// The convolution of ShortConvolution (memory/ops/short_convolution.h) on a CPU in float32: one pass over the steps,
// where LibTorch takes two a tap.
#pragma once

#include <torch/torch.h>

namespace engram::cpu {

// x [B, T + W - 1, C], weight [C, W], bias [C] or undefined, all of which nn/cpu/layers.h takes -> [B, T, C].
// Differentiable once.
torch::Tensor short_convolution(const torch::Tensor& x, const torch::Tensor& weight_CW, const torch::Tensor& bias_C);

}  // namespace engram::cpu
