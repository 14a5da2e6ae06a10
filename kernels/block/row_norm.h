// Normalisation of rows, forward and backward.
//   RMS norm (Zhang and Sennrich 2019):  y = w x / sqrt(mean(x^2) + eps)
//   layer norm (Ba et al. 2016):         y = w (x - mean(x)) / sqrt(var(x) + eps) + b
//
// Rows of `width` elements stand `stride` apart, a multiple of 8 and at most 1,024, unless a matrix has a stride of its
// own; elements after the width are zero in x, are not read in dy, and are written as zero. x, y and their gradients
// are float or bfloat16 (`dtype`), 16-byte aligned; weight, bias and their gradients are float [width]. Computed in
// float, x's statistics anew in the backward pass. An output may be an input. All work is queued on `stream`; the same
// input gives the same bits. Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dropout.h"
#include "kernels/block/gradient_sums.h"
#include "kernels/common/cuda_support.h"

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
  const float* weight;  // null: all 1
  const float* bias;    // of kLayer alone; null: none
};

// One step along a residual stream: x = dropout(branch) [+ residual], rounded to `dtype`, and its norm y, in one pass.
// Dropout counts rows of `width` channels. What follows the width of the branch is not read.
struct ResidualSum {
  DropoutKey dropout;
  const void* branch;
  std::int64_t branch_stride;  // of its rows, at least the width, a multiple of 8
  const void* residual;        // null: none
  void* x;                     // null: not wanted
};
// norm.x is not read: what is normalised is sum.x.
void residual_norm_forward(const RowNorm& norm, const ResidualSum& sum, void* y, cudaStream_t stream);

struct RowNormGradient {
  const void* y;          // dy
  std::int64_t y_stride;  // of its rows, at least the width, a multiple of 8
  const void* residual;   // added to dx; null: nothing
  void* x;                // dx; null: not wanted
  float* weight;          // not read where nothing is made of the scratch memory
  float* bias;            // of kLayer alone; null: not wanted
  DropoutKey dropout;
  void* dropped;  // dropout(dx), the gradient of a ResidualSum's branch; null: not wanted
};
std::size_t row_norm_backward_scratch_bytes(const RowNorm& norm);
// dx and dropout(dx), and in `scratch` what add_up() makes the weight's and the bias's gradients of.
void row_norm_backward(const RowNorm& norm, const RowNormGradient& gradient, void* scratch, cudaStream_t stream);
std::vector<GradientSum> row_norm_sums(const RowNorm& norm, const RowNormGradient& gradient, const void* scratch);

}  // namespace engram
