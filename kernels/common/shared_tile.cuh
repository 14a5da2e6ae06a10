// Matrices in shared memory for products by warps of 16 rows: from memory by asynchronous copies, and back by vectors.
#pragma once

#include <cstdint>

#include "kernels/common/tensor_core.cuh"

namespace engram {

constexpr int kTileRows = 64;

inline int row_tiles(std::int64_t rows) { return static_cast<int>((rows + kTileRows - 1) / kTileRows); }

// A matrix in shared memory. The padding puts eight rows' 16 bytes, which ldmatrix reads at once, into different banks.
template <int kRowCount, int kColumnCount>
struct Tile {
  static constexpr int kRows = kRowCount, kColumns = kColumnCount, kStride = kColumns + 8;
  alignas(16) bf16 element[kRows * kStride];

  __device__ bf16* at(int row, int column) { return element + row * kStride + column; }
  __device__ const bf16* at(int row, int column) const { return element + row * kStride + column; }
};

// Queues copies of `rows` rows from `from`, `stride` apart, to a tile's rows `first_row` ..: kColumns columns of
// kRows rows by kThreads threads, of which this is number `thread`; zeros after `rows` and `columns`.
template <int kRows, int kColumns, int kThreads, class To>
__device__ inline void copy_rows(To& tile, int first_row, const bf16* from, std::int64_t stride, std::int64_t rows,
                                 int columns, int thread) {
#pragma unroll
  for (int i = thread; i < kRows * kColumns / 8; i += kThreads) {
    const int row = i / (kColumns / 8), column = i % (kColumns / 8) * 8;
    copy_async<16>(tile.at(first_row + row, column), from + row * stride + column, row < rows && column < columns);
  }
}

// Writes a warp's 16 rows, of which there are `rows` and `columns`, a multiple of 8, to memory: through rows
// 16 * warp .. of a tile, which no other warp reads or writes, so that a row goes by vectors.
template <int kTiles, class Through>
__device__ void write_rows(const FragmentA<1> (&y)[kTiles], Through& tile, bf16* to, std::int64_t stride,
                           std::int64_t rows, int columns) {
  constexpr int kVectors = 2 * kTiles;  // of a row
  const int lane = lane_id(), first_row = threadIdx.x / 32 * 16;
  __syncwarp();
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      *reinterpret_cast<std::uint32_t*>(tile.at(first_row + lane / 4 + i % 2 * 8, 16 * j + i / 2 * 8 + lane % 4 * 2)) =
          y[j].plane[0][i];
  __syncwarp();
#pragma unroll
  for (int i = lane; i < 16 * kVectors; i += 32) {
    const int row = i / kVectors, column = i % kVectors * 8;
    if (row < rows && column < columns)
      *reinterpret_cast<uint4*>(to + row * stride + column) =
          *reinterpret_cast<const uint4*>(tile.at(first_row + row, column));
  }
}

}  // namespace engram
