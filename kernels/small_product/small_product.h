// C = [relu](A B [+ bias]) of few rows in bfloat16, A [M, K], B [K, N], bias [N], C [M, N]: products and bias are added
// in float32, the result is rounded once. By mma.sync in small blocks of which a multiprocessor holds several, so that
// products of many runs go on beside each other. README.md says what it is for.
//
// All work is queued on `stream`. The same input gives the same bits, whatever the number of rows; a row of A reaches
// nothing but its own row of C. Nothing is read between the rows, and nothing written. C may alias no operand.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/support.h"

namespace engram {

// More is left to products that make use of a whole GPU.
constexpr std::int64_t kSmallProductRows = 16384, kSmallProductInner = 512, kSmallProductColumns = 1024;
constexpr std::int64_t kSmallProductMultiplications = std::int64_t{1} << 28;

// Strides are the elements between two rows.
struct SmallProduct {
  std::int64_t rows, inner, columns;  // M, K, N
  const void* a;                      // bfloat16, as all are
  std::int64_t a_stride;
  const void* b;
  std::int64_t b_stride;
  bool b_transposed;  // B is given as its transpose, [N, K]
  const void* bias;   // nullptr: none
  bool relu;          // NaN stays NaN
  void* c;
  std::int64_t c_stride;
};

// Whether it is meant for this product: at least one row and at most kSmallProductRows, K and N multiples of 8 up to
// kSmallProductInner and kSmallProductColumns, M N K up to kSmallProductMultiplications, strides multiples of 8 and no
// less than a row, addresses multiples of 16 bytes.
Support small_product_support(const SmallProduct& product);

// Errors: std::runtime_error for a product that small_product_support() refuses, or a failed launch.
void small_product(const SmallProduct& product, cudaStream_t stream);

}  // namespace engram
