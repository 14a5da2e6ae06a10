// Weights from the layout of files (float, tight) to that of the kernels (padded, in the type of the products).
//
// A packed matrix [rows, columns] is a stack of segments. Row r of a segment's float matrix [segment rows, segment
// columns] stands in row first_row + pad(r) of the packed one, column c in column pad(c), where pad() spreads groups of
// `group` indices to `padded` apart (heads of 50 to 56); everything else in the packed matrix is zero.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "base/host_device.h"
#include "kernels/common/cuda_support.h"

namespace engram {

struct PackGroups {
  int count;   // indices in all
  int group;   // in one group; >= 1
  int padded;  // >= group

  HOST_DEVICE constexpr int size() const { return (count + group - 1) / group * padded; }
  // Where an index stands, and the index that stands at a position, or -1.
  HOST_DEVICE constexpr int position(int index) const { return index / group * padded + index % group; }
  HOST_DEVICE constexpr int index(int position) const {
    const int inside = position % padded, i = position / padded * group + inside;
    return inside < group && i < count ? i : -1;
  }
};

struct PackSegment {
  const float* matrix;  // contiguous
  int first_row;        // apart from all other segments' rows; one segment has 0
  PackGroups rows, columns;
};

struct PackedMatrix {
  Dtype dtype;
  int rows, columns;
  void* data;  // contiguous
  std::vector<PackSegment> segments;
};

// packed <- segments: all matrices in one launch, or, beyond kPackSegmentsOfLaunch segments, in several. All work is
// queued on `stream`. Errors: std::runtime_error for a shape outside the contract or a failed launch.
constexpr int kPackSegmentsOfLaunch = 64;
void pack(const std::vector<PackedMatrix>& packed, cudaStream_t stream);

}  // namespace engram
