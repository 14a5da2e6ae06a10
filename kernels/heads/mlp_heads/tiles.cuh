// What the forward and the backward kernel share: turns of the warpgroups, registers, launching.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/common/launch.cuh"
#include "kernels/common/wgmma.cuh"
#include "kernels/heads/mlp_heads/layout.cuh"

namespace engram::mlp {

// The block's two warpgroups take turns, one of them first, as long as both have any left: take() waits for the other's
// last pass(). The first one has as many turns as the second or more.
class Turns {
 public:
  __device__ Turns(int warpgroup, bool first, int turns_of_first, int turns_of_second)
      : id_(1 + warpgroup),
        other_id_(2 - warpgroup),
        first_(first),
        waits_(first ? min(turns_of_first - 1, turns_of_second) : turns_of_second),
        passes_(first ? turns_of_second : min(turns_of_first - 1, turns_of_second)) {}
  __device__ void take() {
    if (!first_ && waits_-- > 0) meet(id_, kThreads);
    first_ = false;
  }
  __device__ void pass() {
    if (passes_-- > 0) announce(other_id_, kThreads);
  }

 private:
  int id_, other_id_;
  bool first_;
  int waits_, passes_;
};

// Bits 15 and 31: whether the lower and the upper of two bfloat16 that are not negative is not zero.
__device__ inline std::uint32_t nonzero_halves(std::uint32_t pair) { return (pair + 0x7fff7fffu) & 0x80008000u; }

// Calls function(width) with the kernels' width as a compile-time constant.
template <typename Function>
void for_width(const MlpHeadsShape& shape, const Function& function) {
  switch (kernel_width(shape.stride)) {
    case 64:
      return function(std::integral_constant<int, 64>{});
    case 112:
      return function(std::integral_constant<int, 112>{});
    default:
      return function(std::integral_constant<int, 128>{});
  }
}

// One block a multiprocessor, or fewer: none without two tiles.
inline int blocks_for(std::int64_t tiles) {
  return static_cast<int>(std::min<std::int64_t>(cuda_device_attribute(cudaDevAttrMultiProcessorCount),
                                                 (tiles + kWarpgroups - 1) / kWarpgroups));
}

}  // namespace engram::mlp
