// Weights between the layout of files (float, tight) and that of the kernels (padded, in the type of the products).
//
// A packed matrix [rows, columns] is a stack of segments. Row r of a segment's float matrix [segment rows, segment
// columns] stands in row first_row + pad(r) of the packed one, column c in column pad(c), where pad() spreads groups of
// `group` indices to `padded` apart (heads of 50 to 56); everything else in the packed matrix is zero.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "base/host_device.h"
#include "kernels/cuda_support.h"

namespace engram {

struct PackGroups {
  int count;   // indices in all
  int group;   // in one group; >= 1
  int padded;  // >= group

  HOST_DEVICE constexpr int size() const { return (count + group - 1) / group * padded; }
  // The index that stands at `position`, or -1.
  HOST_DEVICE constexpr int index(int position) const {
    const int inside = position % padded, i = position / padded * group + inside;
    return inside < group && i < count ? i : -1;
  }
};

struct PackSegment {
  float* matrix;  // contiguous
  int first_row;
  PackGroups rows, columns;
};

constexpr int kMaxPackSegments = 8;

struct PackedMatrix {
  Dtype dtype;
  int rows, columns;
  void* data;  // contiguous
  int segments;
  PackSegment segment[kMaxPackSegments];
};

constexpr int kMaxPackMatrices = 8;

// packed <- segments, for up to kMaxPackMatrices matrices at a time
void pack(const std::vector<PackedMatrix>& packed, cudaStream_t stream);
// segments <- packed; what stands in the padding is not read
void unpack(const std::vector<PackedMatrix>& packed, cudaStream_t stream);

}  // namespace engram
