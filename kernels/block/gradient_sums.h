// Gradients of parameters from what large kernels and products leave of them: sums of float matrices of the layout of
// packed weights (pack.h), many gradients in one launch.
//   gradient[r, c] = sum over i < count of parts[i][rows.position(r), columns.position(c)]
// What stands in the padding is not read. Matrices are added in an order that depends on their count alone: up to 32
// sums of every so many-th matrix, then these; so the same input gives the same bits, in whatever company.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/block/pack.h"

namespace engram {

struct GradientSum {
  const float* parts;     // the first of `count` matrices
  int count;              // >= 1
  int stride;             // of a matrix's rows, in floats, at least columns.size()
  std::int64_t distance;  // of the matrices' beginnings, in floats
  PackGroups rows, columns;
  float* gradient;  // [rows.count, columns.count], contiguous, apart from all parts
};

// A sum of vectors, which are rows of `stride` floats one after the other.
inline GradientSum vector_sum(const float* parts, int count, int stride, int width, float* gradient) {
  return {parts, count, stride, stride, {1, 1, 1}, {width, width, width}, gradient};
}

// So many gradients are made by one launch; more take several.
constexpr int kGradientSumsOfLaunch = 64;

// All work is queued on `stream`. Errors: std::runtime_error for a shape outside the contract or a failed launch.
void add_up(const std::vector<GradientSum>& sums, cudaStream_t stream);

}  // namespace engram
