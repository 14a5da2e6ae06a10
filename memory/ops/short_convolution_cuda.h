// A short convolution over sequences on a GPU, by kernels/block/short_convolution. Where engram is built without CUDA
// nothing is supported.
#pragma once

#include <torch/torch.h>

#include "base/support.h"
#include "memory/ops/short_convolution.h"

namespace engram::cuda {

// What ShortConvolution::forward() is given: x [B, T, C], state [B, S, C], weight [C, S + 1], bias [C] or undefined,
// lengths [B] int64.
struct ShortConvolutionTensors {
  torch::Tensor x_BTC, state_BSC, weight_CW, bias_C, lengths_B;
};

// Whether the kernels take them: on one GPU, x in float32 or bfloat16, the rest in float32, S = 3, no dimension of 0.
Support supports_short_convolution(const ShortConvolutionTensors& tensors);

// Differentiable once. Throws c10::Error with the reason where the kernels do not take the tensors.
ShortConvolution::Output short_convolution(const ShortConvolutionTensors& tensors);

}  // namespace engram::cuda
