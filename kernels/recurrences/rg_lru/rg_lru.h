// What an RG-LRU (De et al. 2024, arXiv:2402.19427, equations 1 to 4) makes of its two gates and of what it is given,
// the factor and the addend of its linear recurrence: of every row and channel, with r and i the sigmoids of the logits
// of recurrence and input gate,
//   log a = 8 log(sigmoid(decay)) r    keep = a    write = sqrt(1 - a^2) i u.
// In a row that is the first of an episode the root is 1. It is at least 1e-6 elsewhere, where it has no slope: where a
// rounds to 1 that would be infinite.
//
// Rows of `width` channels. The logits, float or bfloat16 (`dtype`), have rows that are `stride` elements apart, so
// that both may stand in one matrix; all else is float and contiguous. Computed in float. rows * width < 2^31. All work
// is queued on `stream`; the same input gives the same bits. Devices: 8.0 and later. Errors: std::runtime_error for a
// shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/common/cuda_support.h"

namespace engram {

struct RgLruGates {
  std::int64_t rows;
  int width;
  Dtype dtype;
  std::int64_t stride;
  const void *recurrence_logit, *input_logit;
  const float* u;        // [rows, width]
  const float* decay;    // [width]
  const bool* is_first;  // [rows]; null: no row is
};
void rg_lru_gates_forward(const RgLruGates& gates, float* keep, float* write, cudaStream_t stream);

// Gradients: of the logits stored as these with a stride of their own; of the decay the sum over the rows.
struct RgLruGatesGradient {
  std::int64_t stride;
  void *recurrence_logit, *input_logit;
  float* u;
  float* decay;
};
std::size_t rg_lru_gates_backward_scratch_bytes(const RgLruGates& gates);
void rg_lru_gates_backward(const RgLruGates& gates, const float* keep_gradient, const float* write_gradient,
                           const RgLruGatesGradient& gradient, void* scratch, cudaStream_t stream);

}  // namespace engram
