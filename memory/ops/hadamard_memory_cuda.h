// Stable Hadamard Memory over sequences on a GPU, by kernels/fast_weights/hadamard_memory. Where engram is built
// without CUDA nothing is supported.
#pragma once

#include <torch/torch.h>

#include "base/support.h"
#include "memory/ops/hadamard_memory.h"

namespace engram::cuda {

// Whether the kernels take these tensors: on one GPU, float32, vectors of one shape [B, T, H] and a first M [B, H, H],
// with no dimension of 0 and H at most 128.
Support supports_hadamard_memory(const HadamardMemoryVectors& vectors, const torch::Tensor& first_BHH);

// plain_hadamard_memory() in float32 with M in registers: keeps M of every eighth step, and a bit for each element of
// each step, where gradients are recorded. Differentiable once. Throws c10::Error with the reason where the kernels do
// not take the tensors.
HadamardMemoryResult hadamard_memory(const HadamardMemoryVectors& vectors, const torch::Tensor& first_BHH,
                                     const torch::Tensor& lengths_B, double limit);

}  // namespace engram::cuda
