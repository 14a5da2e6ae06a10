// Products of few rows in bfloat16, added in float32, by mma.sync in small blocks of which a multiprocessor holds
// several, so that products of many runs go on beside each other. README.md says what they are for.
//
// All work is queued on `stream`. The same input gives the same bits. Nothing is read between the rows, and nothing
// written. A result may alias no operand.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/support.h"
#include "kernels/common/cuda_support.h"

namespace engram {

// More is left to products that make use of a whole GPU.
constexpr std::int64_t kSmallProductRows = 16384, kSmallProductInner = 512, kSmallProductColumns = 1024;
constexpr std::int64_t kSmallProductMultiplications = std::int64_t{1} << 28;

// C = [relu](A B [+ bias]), A [M, K], B [K, N], bias [N], C [M, N]; products and bias are added in float32, the result
// is rounded once. A row of A reaches nothing but its own row of C, whose bits are the same whatever the number of
// rows. Strides are the elements between two rows.
struct SmallProduct {
  std::int64_t rows, inner, columns;  // M, K, N
  const void* a;                      // bfloat16, as all are but for c_dtype
  std::int64_t a_stride;
  const void* b;
  std::int64_t b_stride;
  bool b_transposed;  // B is given as its transpose, [N, K]
  const void* bias;   // nullptr: none
  bool relu;          // NaN stays NaN
  void* c;
  std::int64_t c_stride;
  Dtype c_dtype = Dtype::kBfloat16;  // of the bias and C; float: C is not rounded
};

// Whether it is meant for this product: at least one row and at most kSmallProductRows, K and N multiples of 8 up to
// kSmallProductInner and kSmallProductColumns, M N K up to kSmallProductMultiplications, strides multiples of 8 and no
// less than a row, addresses multiples of 16 bytes.
Support supports_small_product(const SmallProduct& product);

// Errors: std::runtime_error for a product that supports_small_product() refuses, or a failed launch.
void small_product(const SmallProduct& product, cudaStream_t stream);

// C = A^T B, A [R, M], B [R, N], as `parts` that add_up() of kernels/block/gradient_sums.h makes one: the gradient of a
// layer's weights, of its outputs' gradients and its inputs. Part i [M, N] in float32, one after the other, is of rows
// i * small_gradient_part_rows(R) on.
struct SmallGradient {
  std::int64_t rows, outputs, inputs;  // R, M, N
  const void* a;                       // bfloat16, as b
  std::int64_t a_stride;
  const void* b;
  std::int64_t b_stride;
  float* parts;
};

// At least 256, in multiples of a block's step; at most 16 parts.
std::int64_t small_gradient_part_rows(std::int64_t rows);
int small_gradient_parts(std::int64_t rows);

// As supports_small_product(), M and N both like N there.
Support supports_small_gradient(const SmallGradient& gradient);

// Errors: as small_product().
void small_gradient(const SmallGradient& gradient, cudaStream_t stream);

}  // namespace engram
