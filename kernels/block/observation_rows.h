// Observations, and what a network sees beside them, as the numbers that it reads, in one launch for all of their
// parts.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/common/cuda_support.h"

namespace engram {

constexpr int kMaxObservationParts = 8;

// Observations x [rows, elements], contiguous, bytes or floats, whose parts lie one after the other; the last parts may
// lie beside them, in floats of their own. A part of `values` 0 is quantities: its elements as they are, bytes divided
// by 255. Of other parts each element, one of `values` tokens, becomes as many numbers: 1 at its own place and 0
// elsewhere; all 0 for a number that is none of them.
struct ObservationRows {
  struct Part {
    int elements;
    int values;
    std::int64_t columns() const { return std::int64_t{elements} * (values > 0 ? values : 1); }
  };
  std::int64_t rows;
  int parts;         // 1 .. kMaxObservationParts, those beside x included
  int beside_parts;  // the last ones, fewer than `parts`
  Part part[kMaxObservationParts];
  bool bytes;
  const void* x;
  const float* beside;  // [rows, elements]; not read where beside_parts is 0
  int stride;           // of y, a multiple of 8, at least as many as the parts have columns
  Dtype dtype;
};
// y [rows, stride] of `dtype`, 16-byte aligned, zero after the parts' columns, queued on `stream`; rows * stride is
// below 2^31.
// Errors: std::runtime_error for a shape outside the contract or a failed launch.
void observation_rows(const ObservationRows& input, void* y, cudaStream_t stream);

}  // namespace engram
