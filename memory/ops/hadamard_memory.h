// What Stable Hadamard Memory (Le et al. 2024, arXiv:2410.10132, section 4) does with its matrix: from a first M on,
//   C_t = 1 + tanh(theta_t c_t^T),   M_t = clamp(M_{t-1} * C_t + v_t k_t^T, -limit, limit),   h_t = M_t q_t,
// where * is the product element by element and `limit` may be infinite. No gradient passes through an element that the
// limit has changed, as in torch::clamp.
//
// Shapes: B batch, T time, H rows and columns of M.
#pragma once

#include <torch/torch.h>

namespace engram {

// Of every step: [B, T, H] each.
struct HadamardMemoryVectors {
  torch::Tensor theta_BTH, c_BTH, value_BTH, key_BTH, query_BTH;
};
// last: M after a row's last step, of an empty row the first M.
struct HadamardMemoryResult {
  torch::Tensor h_BTH, last_BHH;
};

// Over row b's first lengths_B[b] steps (int64, 0 .. T); h is zero behind them. Vectors and first_BHH share their type,
// float32 or float64, and their device. Differentiable once. By LibTorch's operations on any device, one step after the
// other. On a GPU memory/ops/hadamard_memory_cuda.h has the same by kernels.
HadamardMemoryResult plain_hadamard_memory(const HadamardMemoryVectors& vectors, const torch::Tensor& first_BHH,
                                           const torch::Tensor& lengths_B, double limit);

// One step with vectors [B, H]: brings m_BHH to what it is after the step and returns h [B, H].
torch::Tensor hadamard_memory_step(const HadamardMemoryVectors& vectors, torch::Tensor m_BHH, double limit);

}  // namespace engram
