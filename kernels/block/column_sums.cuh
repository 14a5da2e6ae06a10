// Sums over rows, one a column, in a fixed order: every block leaves its own sums of `columns` floats, and a second
// kernel adds those up.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/block/row_vector.cuh"
#include "kernels/cuda_support.h"

namespace engram {

// Blocks of a kernel whose threads stride over the rows: as many as are resident at a time, few enough to add up.
inline int row_blocks(std::int64_t rows, int rows_per_block, int resident) {
  const std::int64_t all = (rows + rows_per_block - 1) / rows_per_block;
  return static_cast<int>(
      std::clamp<std::int64_t>(all, 1, resident * cuda_device_attribute(cudaDevAttrMultiProcessorCount)));
}

// Adds up what the block's threads hold for column `column` .. + 7 and writes it to block_sums[column ...]. Threads of
// one `slot` hold different columns; there are `slots`. `shared`: slots * columns floats. All threads call it.
__device__ inline void write_block_sums(const RowVector& sum, bool holds, int column, int slot, int slots, int columns,
                                        float* shared, float* block_sums) {
  __syncthreads();
  if (holds)
#pragma unroll
    for (int i = 0; i < kVector; ++i) shared[slot * columns + column + i] = sum.x[i];
  __syncthreads();
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    float total = 0;
    for (int s = 0; s < slots; ++s) total += shared[s * columns + c];
    block_sums[c] = total;
  }
}

// out[c] = sum over blocks of sums[block * columns + c], for c < width; blockDim (32, 32), a grid over the columns.
static __global__ void add_block_sums_kernel(const float* __restrict__ sums, int blocks, int columns, int width,
                                             float* __restrict__ out) {
  __shared__ float part[32][33];
  const int c = blockIdx.x * 32 + threadIdx.x;
  float total = 0;
  if (c < columns)
#pragma unroll 8  // loads on their way together: there are few threads to hide them
    for (int b = threadIdx.y; b < blocks; b += 32) total += sums[static_cast<std::int64_t>(b) * columns + c];
  part[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y == 0 && c < width) {
    total = 0;
    for (int i = 0; i < 32; ++i) total += part[i][threadIdx.x];
    out[c] = total;
  }
}

inline void add_block_sums(const float* sums, int blocks, int columns, int width, float* out, cudaStream_t stream) {
  add_block_sums_kernel<<<(columns + 31) / 32, dim3(32, 32), 0, stream>>>(sums, blocks, columns, width, out);
  check_cuda(cudaGetLastError(), "add_block_sums");
}

}  // namespace engram
