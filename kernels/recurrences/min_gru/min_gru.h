// What a minGRU (Feng et al. 2024, arXiv:2410.01201, section 3.1) makes of its two maps, the factor and the addend of
// its linear recurrence: of every row and channel, with z = sigmoid(gate + bias),
//   keep = 1 - z    write = z candidate.
//
// Rows of `width` channels. Gates and candidates, float or bfloat16 (`dtype`), have rows that are `stride` elements
// apart, so that both may stand in one matrix; keep, write and their gradients are float and contiguous. Computed in
// float. rows * width < 2^31. All work is queued on `stream`; the same input gives the same bits. Devices: 8.0 and
// later. Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/common/cuda_support.h"

namespace engram {

struct MinGruGates {
  std::int64_t rows;
  int width;
  Dtype dtype;
  std::int64_t stride;
  const void *gate, *candidate;
  const float* bias;  // [width]
};
void min_gru_gates_forward(const MinGruGates& gates, float* keep, float* write, cudaStream_t stream);

// Gradients of gates and candidates, stored as these with a stride of their own, and of the bias, the sum of the
// gates' over the rows.
struct MinGruGatesGradient {
  std::int64_t stride;
  void *gate, *candidate;
  float* bias;  // [width]
};
std::size_t min_gru_gates_backward_scratch_bytes(const MinGruGates& gates);
void min_gru_gates_backward(const MinGruGates& gates, const float* keep_gradient, const float* write_gradient,
                            const MinGruGatesGradient& gradient, void* scratch, cudaStream_t stream);

}  // namespace engram
