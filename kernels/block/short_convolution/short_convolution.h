// A short causal convolution of each channel (memory/ops/short_convolution.h) over whole sequences, for learning: of
// row b and channel c, with W = kShortConvolutionWidth and x_{-S} ... x_{-1} the S = W - 1 inputs that the row still
// sees of what was before,
//   y_t = bias_c + sum over j < W of weight_{c,j} x_{t - S + j}    for 0 <= t < T,
// and what the steps after length_B[b] will still see: x of the S steps before it.
//
// One thread takes a channel through a stretch of steps: x is read once where a sum of products would read it W times,
// and its gradient likewise; the gradients of weight and bias are added up over a stretch in registers.
//
// Dimensions: B rows, T steps, C channels, each at least 1; B * ceil(T / 32) * C < 2^31. Types: x and its gradient
// float or bfloat16, all else float, as all sums are. Layout: contiguous.
// RMS error over RMS: at most 1e-6, of the gradients of weight and bias 1e-5 (float sums over rows and steps), of what
// is bfloat16 half a unit of its last place more.
// Aliasing: no output may overlap an input or another output. Scratch: 16-byte aligned, any contents. All work is
// queued on `stream`; nothing synchronises. The same input gives the same bits. Devices: 8.0 and later. Errors:
// std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/common/cuda_support.h"

namespace engram {

constexpr int kShortConvolutionWidth = 4;  // W, steps

struct ShortConvolutionInput {
  int batch;
  int time;
  int channels;
  Dtype dtype;                   // of x
  const void* x_BTC;             // from step 0 on
  const float* state_BSC;        // x before it, oldest first
  const float* weight_CW;        // the present step's last
  const float* bias_C;           // null: none
  const std::int64_t* length_B;  // on the device, 0 <= length <= T
};

// last_BSC: the state after length steps.
void short_convolution_forward(const ShortConvolutionInput& input, float* y_BTC, float* last_BSC, cudaStream_t stream);

struct ShortConvolutionGradient {
  void* x_BTC;  // of the input's type
  float* state_BSC;
  float* weight_CW;
  float* bias_C;  // null where there is none
};
std::size_t short_convolution_backward_scratch_bytes(const ShortConvolutionInput& input);
// last_gradient_BSC: null: zero.
void short_convolution_backward(const ShortConvolutionInput& input, const float* y_gradient_BTC,
                                const float* last_gradient_BSC, const ShortConvolutionGradient& gradient, void* scratch,
                                cudaStream_t stream);

}  // namespace engram
