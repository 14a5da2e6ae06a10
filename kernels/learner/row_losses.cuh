// What the kernels of losses over whole episodes share: a thread for each of the T + 1 rows of an episode, and sums
// over all rows in a fixed order, so that the same input gives the same bits.
#pragma once

#include <cstdint>

#include "kernels/common/tensor_core.cuh"

namespace engram::row_losses {

constexpr int kThreads = 256;

inline std::int64_t blocks_of(int batch, int time) {
  return (std::int64_t{batch} * (time + 1) + kThreads - 1) / kThreads;
}

// Sums over a block's threads, of each of some numbers, in a fixed order: taken(i, the sum of sums[i]) is called by
// thread i. All threads call it; a second call at the same place would need a barrier before it.
template <int kSums, class Number, class Taken>
__device__ void block_sums_of(Number (&sums)[kSums], const Taken& taken) {
  static_assert(kSums <= kThreads);
  __shared__ Number of_warp[kThreads / 32][kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sums[i] += __shfl_down_sync(0xffffffffu, sums[i], distance);
    if (lane_id() == 0) of_warp[threadIdx.x / 32][i] = sums[i];
  }
  __syncthreads();
  const int own = static_cast<int>(threadIdx.x);
  if (own >= kSums) return;
  Number total = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) total += of_warp[warp][own];
  taken(own, total);
}

// 1 / n, in all threads of a block.
__device__ inline float inverse_of_all_steps(const std::int64_t* steps_B, int batch) {
  __shared__ float inverse;
  std::int64_t own = 0;
  for (int b = threadIdx.x; b < batch; b += kThreads) own += steps_B[b];
  float steps[1] = {static_cast<float>(own)};
  block_sums_of(steps, [&](int, float sum) { inverse = 1.0f / sum; });
  __syncthreads();
  return inverse;
}

// Where a thread's row is.
struct RowPlace {
  std::int64_t row, b, t;
  bool inside;  // or else b and t are 0
};
__device__ inline RowPlace own_row(int batch, int time) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int rows = time + 1;
  const bool inside = row < std::int64_t{batch} * rows;
  return {row, inside ? row / rows : 0, inside ? row % rows : 0, inside};
}

// block_sums[block] = the sums over the block's threads, [blocks, kLosses].
template <int kLosses>
__device__ void keep_block_sums(float (&sums)[kLosses], float* block_sums) {
  block_sums_of(sums, [&](int i, float sum) { block_sums[std::int64_t{blockIdx.x} * kLosses + i] = sum; });
}

// One block: the sums over all blocks.
template <int kLosses>
__global__ void __launch_bounds__(kThreads)
    losses_kernel(const float* __restrict__ block_sums, std::int64_t blocks, float* __restrict__ losses) {
  float sums[kLosses] = {};
  for (std::int64_t block = threadIdx.x; block < blocks; block += kThreads)
#pragma unroll
    for (int i = 0; i < kLosses; ++i) sums[i] += block_sums[block * kLosses + i];
  block_sums_of(sums, [&](int i, float sum) { losses[i] = sum; });
}

}  // namespace engram::row_losses
