// Normalisation of rows, forward and backward.
//   RMS norm (Zhang and Sennrich 2019):  y = w x / sqrt(mean(x^2) + eps)
//   layer norm (Ba et al. 2016):         y = w (x - mean(x)) / sqrt(var(x) + eps) + b
//
// Rows of `width` elements stand `stride` apart, a multiple of 8 and at most 1,024; elements behind the width are zero
// in x and in dy, and are written as zero. x, y and their gradients are float or bfloat16 (`dtype`), 16-byte aligned;
// weight, bias and their gradients are float [width]. Computed in float, x's statistics anew in the backward pass. The
// output may be the input. All work is queued on `stream`; the same input gives the same bits. Errors:
// std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda_support.h"

namespace engram {

enum class NormKind { kRms, kLayer };

struct RowNorm {
  NormKind kind;
  std::int64_t rows;
  int width;
  int stride;
  float epsilon;
  Dtype dtype;
  const void* x;
  const float* weight;
  const float* bias;  // of kLayer; null: none
};

void row_norm_forward(const RowNorm& norm, void* y, cudaStream_t stream);

struct RowNormGradient {
  const void* y;         // dy
  const void* residual;  // added to dx; null: nothing
  void* x;               // dx
  float* weight;
  float* bias;  // null: not wanted
};
std::size_t row_norm_backward_scratch_bytes(const RowNorm& norm);
// dx, and in `scratch` what the second call makes the weight's and the bias's gradients of.
void row_norm_backward(const RowNorm& norm, const RowNormGradient& gradient, void* scratch, cudaStream_t stream);
void row_norm_add_sums(const RowNorm& norm, const RowNormGradient& gradient, const void* scratch, cudaStream_t stream);

}  // namespace engram
