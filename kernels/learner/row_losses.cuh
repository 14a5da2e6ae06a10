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

// The sum over a block's threads, in thread 0, in a fixed order. `shared`: a number for each warp.
template <class Number>
__device__ Number block_sum(Number x, Number* shared) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_down_sync(0xffffffffu, x, distance);
  __syncthreads();
  if (lane_id() == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  Number total = 0;
  if (threadIdx.x == 0)
    for (int i = 0; i < kThreads / 32; ++i) total += shared[i];
  return total;
}

// 1 / n, in all threads of a block. `shared`: kThreads / 32 floats.
__device__ inline float inverse_of_all_steps(const std::int64_t* steps_B, int batch, float* shared) {
  __shared__ float inverse;
  std::int64_t own = 0;
  for (int b = threadIdx.x; b < batch; b += kThreads) own += steps_B[b];
  const float steps = block_sum(static_cast<float>(own), shared);
  if (threadIdx.x == 0) inverse = 1.0f / steps;
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
__device__ void keep_block_sums(const float (&sums)[kLosses], float* block_sums, float* shared) {
  for (int i = 0; i < kLosses; ++i) {
    const float total = block_sum(sums[i], shared);
    if (threadIdx.x == 0) block_sums[std::int64_t{blockIdx.x} * kLosses + i] = total;
  }
}

// One block: the sums over all blocks.
template <int kLosses>
__global__ void __launch_bounds__(kThreads)
    losses_kernel(const float* __restrict__ block_sums, std::int64_t blocks, float* __restrict__ losses) {
  __shared__ float shared[kThreads / 32];
  for (int i = 0; i < kLosses; ++i) {
    float sum = 0;
    for (std::int64_t block = threadIdx.x; block < blocks; block += kThreads) sum += block_sums[block * kLosses + i];
    const float total = block_sum(sum, shared);
    if (threadIdx.x == 0) losses[i] = total;
  }
}

}  // namespace engram::row_losses
