// Sums over rows, one a column, in a fixed order: every block leaves its own sums of `columns` floats, which add_up()
// adds up (gradient_sums.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/block/row_vector.cuh"
#include "kernels/common/cuda_support.h"

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

}  // namespace engram
