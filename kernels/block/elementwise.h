// The passes of a block that treat every element, or every column, on its own, forward and backward.
//
// Matrices of float or bfloat16 (`dtype`), contiguous unless a stride is given, 16-byte aligned; computed in float. All
// work is queued on `stream`; the same input gives the same bits.
// Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/dropout.h"
#include "kernels/block/gradient_sums.h"
#include "kernels/common/cuda_support.h"

namespace engram {

// y = dropout(x) [+ residual] for rows of `width` channels; those of x are `x_stride` elements apart, those of y and of
// the residual `stride`. What follows the width is not read, and is zero in y. y may be x, where the strides are
// equal, or the residual. Rows and strides that are multiples of 16 bytes are fast, others are taken too. The gradient
// of x is the same call for dy without a residual. rows * ceil(stride / 8) < 2^31.
struct DropoutAdd {
  std::int64_t rows;
  int width;
  std::int64_t x_stride;
  int stride;
  Dtype dtype;
  DropoutKey dropout;
  const void* x;
  const void* residual;  // null: none
};
void dropout_add(const DropoutAdd& input, void* y, cudaStream_t stream);

// SwiGLU's activation (Shazeer 2020): hidden = silu(gate) * up for rows [gate | up] of 2 * inner elements; inner is a
// multiple of 8; rows * inner / 8 < 2^31.
void swiglu_forward(std::int64_t rows, int inner, Dtype dtype, const void* gate_up, void* hidden, cudaStream_t stream);
void swiglu_backward(std::int64_t rows, int inner, Dtype dtype, const void* gate_up, const void* hidden_gradient,
                     void* gate_up_gradient, cudaStream_t stream);

// The gradient of y = relu(x + bias): dx = dy where y > 0 [everywhere without a relu] and slope dy elsewhere, slope > 0
// for a leaky relu (Maas et al. 2013); the bias's is the sum of dx over the rows. Rows of `columns` elements (a
// multiple of 8, at most 1,024), y and dy and dx each with its own distance of rows (a multiple of 8). dx may be dy.
struct ReluBiasGradient {
  std::int64_t rows;
  int columns;
  Dtype dtype;
  const void* y;  // null: no relu
  float slope;    // 0: relu itself
  std::int64_t y_stride;
  const void* dy;
  std::int64_t dy_stride;
  void* dx;  // null: not wanted (without a relu it is dy)
  std::int64_t dx_stride;
  float* bias;  // [columns]
};
std::size_t relu_bias_backward_scratch_bytes(const ReluBiasGradient& gradient);
// dx, and in `scratch` what add_up() makes the bias's gradient of.
void relu_bias_backward(const ReluBiasGradient& gradient, void* scratch, cudaStream_t stream);
GradientSum relu_bias_sum(const ReluBiasGradient& gradient, const void* scratch);

// y = z + scale x, a scale for each column. Contiguous rows of `columns` elements (a multiple of 8, at most 1,024);
// rows * columns / 8 < 2^31. y may be z.
struct ScaledAdd {
  std::int64_t rows;
  int columns;
  Dtype dtype;
  const float* scale;  // [columns]
  const void* x;
};
void scaled_add(const ScaledAdd& input, const void* z, void* y, cudaStream_t stream);
std::size_t scaled_add_backward_scratch_bytes(const ScaledAdd& input);
// dx = scale dy, and in `scratch` what add_up() makes the scale's gradient of, the sum of dy x over the rows. (dz is
// dy.)
void scaled_add_backward(const ScaledAdd& input, const void* dy, void* dx, void* scratch, cudaStream_t stream);
GradientSum scaled_add_sum(const ScaledAdd& input, const void* scratch, float* scale_gradient);

// y = gelu(x + bias), gelu(z) = z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2 (Hendrycks and Gimpel 2016), for
// contiguous rows of `columns` elements, a multiple of 8; the bias counts as zero after its `width` elements.
struct GeluBias {
  std::int64_t rows;
  int columns;
  int width;  // <= columns
  Dtype dtype;
  const void* x;
  const float* bias;  // [width]
};
void gelu_bias_forward(const GeluBias& input, void* y, cudaStream_t stream);
std::size_t gelu_bias_backward_scratch_bytes(const GeluBias& input);
// x's gradient, which may be written over y's, and in `scratch` what add_up() makes the bias's of, the sum of x's over
// the rows [width].
void gelu_bias_backward(const GeluBias& input, const void* y_gradient, void* x_gradient, void* scratch,
                        cudaStream_t stream);
GradientSum gelu_bias_sum(const GeluBias& input, const void* scratch, float* bias_gradient);

}  // namespace engram
