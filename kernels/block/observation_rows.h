// Observations as the numbers that a network reads, in one launch for all parts of an observation.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/common/cuda_support.h"

namespace engram {

constexpr int kMaxObservationParts = 8;

// Observations x [rows, elements], contiguous, bytes or floats, whose parts lie one after the other. A part of `values`
// 0 is quantities: its elements as they are, bytes divided by 255. Of other parts each element, one of `values` tokens,
// becomes as many numbers: 1 at its own place and 0 elsewhere; all 0 for a number that is none of them.
struct ObservationRows {
  struct Part {
    int elements;
    int values;
    std::int64_t columns() const { return std::int64_t{elements} * (values > 0 ? values : 1); }
  };
  std::int64_t rows;
  int parts;  // 1 .. kMaxObservationParts
  Part part[kMaxObservationParts];
  bool bytes;
  const void* x;
  int stride;  // of y, at least as many as the parts have columns
  Dtype dtype;
};
// y [rows, stride] of `dtype`, zero after the parts' columns, queued on `stream`. rows * stride < 2^31.
// Errors: std::runtime_error for a shape outside the contract or a failed launch.
void observation_rows(const ObservationRows& input, void* y, cudaStream_t stream);

}  // namespace engram
