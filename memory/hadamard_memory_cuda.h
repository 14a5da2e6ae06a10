// Stable Hadamard Memory over sequences on a GPU, by kernels/hadamard_memory. Where engram is built without CUDA
// nothing is supported.
#pragma once

#include <torch/torch.h>

#include "base/support.h"

namespace engram {

// Of every step, [B, T, H] each.
struct HadamardMemoryVectors {
  torch::Tensor theta_BTH, c_BTH, value_BTH, key_BTH, query_BTH;
};
struct HadamardMemoryResult {
  torch::Tensor h_BTH, last_BHH;
};

// Whether the kernels take these tensors: on one GPU, float32, vectors of one shape [B, T, H] and a first M [B, H, H],
// with no dimension of 0 and H at most 128.
Support supports_hadamard_memory_on_gpu(const HadamardMemoryVectors& vectors, const torch::Tensor& first_BHH);

// From the first M on, with C_t = 1 + tanh(theta_t c_t^T) and M_t = M_{t-1} * C_t + v_t k_t^T: every h_t = M_t q_t,
// zero behind each row's lengths_B (int64), and M after the row's last step. Differentiable once; keeps M of every
// eighth step where gradients are recorded. Throws c10::Error with the reason where the kernels do not take the
// tensors.
HadamardMemoryResult hadamard_memory_on_gpu(const HadamardMemoryVectors& vectors, const torch::Tensor& first_BHH,
                                            const torch::Tensor& lengths_B);

}  // namespace engram
