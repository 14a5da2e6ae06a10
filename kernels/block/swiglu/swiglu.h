// SwiGLU (Shazeer 2020) on Hopper, with the hidden units on chip: y = Wd (silu(Wg x) * (Wu x)) for M rows of D
// channels, stored as P channels. One kernel forward, one for x's gradient, one for the weights'; the latter two
// compute the hidden units again. A specialisation beside plain products with swiglu_forward() and swiglu_backward()
// between them (kernels/block/elementwise.h), for bfloat16 where supports_fused_swiglu() says so.
//
// Rows are bfloat16 [M, P], contiguous, 16-byte aligned, zero after D; products are summed in float, and gates
// and what they multiply stay floats. Outputs overlap no input. All work is queued on `stream`; the same input gives
// the same bits; rows do not influence each other. Errors: std::runtime_error for a shape or a device outside the
// contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/support.h"

namespace engram {

// Whether there are kernels for rows of `stride` channels, a multiple of 16 up to 128, and `inner` hidden units, a
// multiple of 64; and whether the current device and this build have them.
Support supports_fused_swiglu_sizes(int stride, int inner);
Support supports_fused_swiglu(int stride, int inner);

// The weights, float32 and contiguous, and where they go in the order and the type in which the kernels read them:
// fused_swiglu_weight_bytes(), 16-byte aligned.
struct SwiGluPacking {
  int width;   // D
  int stride;  // P
  int inner;   // I
  const float* gate_ID;
  const float* up_ID;
  const float* down_DI;
  void* weights;
};
std::size_t fused_swiglu_weight_bytes(int stride, int inner);
// Those of many, all of one stride, in one launch, or, beyond kSwiGluPackingsOfLaunch, in several.
constexpr int kSwiGluPackingsOfLaunch = 32;
void fused_swiglu_pack(const std::vector<SwiGluPacking>& packings, cudaStream_t stream);

struct FusedSwiGlu {
  std::int64_t rows;    // M
  int width;            // D
  int stride;           // P
  int inner;            // I
  const void* weights;  // of fused_swiglu_pack(), 16-byte aligned
  const void* x;        // [M, P]
};

void fused_swiglu_forward(const FusedSwiGlu& input, void* y, cudaStream_t stream);  // y: [M, P], zero after D

// From dy [M, P]: x's gradient [M, P], zero after D.
struct FusedSwiGluGradient {
  const void* y;
  void* x;
};
void fused_swiglu_backward(const FusedSwiGlu& input, const FusedSwiGluGradient& gradient, cudaStream_t stream);

// From dy [M, P]: the weights' gradients, summed over the rows in float; all of them are overwritten.
struct SwiGluWeightGradient {
  const void* y;
  float* gate_ID;
  float* up_ID;
  float* down_DI;
};
std::size_t fused_swiglu_weight_gradient_scratch_bytes(const FusedSwiGlu& input);
void fused_swiglu_weight_gradient(const FusedSwiGlu& input, const SwiGluWeightGradient& gradient, void* scratch,
                                  cudaStream_t stream);

}  // namespace engram
