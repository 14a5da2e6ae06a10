// What the kernels over whole sequences share: blocks of rows in shared memory and products of a warp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/problem.cuh"
#include "kernels/attention/rotary.cuh"
#include "kernels/common/fast_math.h"
#include "kernels/common/launch.cuh"
#include "kernels/common/tensor_core.cuh"

namespace engram::attention {

// The functions below share work among a team of kThreads<T> threads, a block or its first or second half, unless they
// say otherwise.
template <typename T>
__device__ inline int team_thread() {
  return threadIdx.x % kThreads<T>;
}

template <int kBytes, int kWidth, typename T>
__device__ inline void copy_rows_by(T* tile, const T* global, std::int64_t stride, int valid_rows, int columns) {
  constexpr int kElements = kBytes / sizeof(T), kPieces = kWidth / kElements, kLanes = kPieces < 32 ? kPieces : 32;
  constexpr int kRows = kThreads<T> / kLanes;
  const int column = team_thread<T>() % kLanes * kElements, row = team_thread<T>() / kLanes;
  global += row * stride + column;
  tile += row * kStride<kWidth> + column;
#pragma unroll
  for (int piece = 0; piece < kPieces * kElements; piece += kLanes * kElements) {
    if (column + piece >= columns) break;
    const T* from = global + piece;
#pragma unroll
    for (int i = 0; i < kBlock<T>; i += kRows, from += kRows * stride)
      copy_async<kBytes>(tile + i * kStride<kWidth> + piece, from, row + i < valid_rows);
  }
}

// Rows that are aligned to less than 16 bytes.
template <int kWidth, typename T>
__device__ __noinline__ void copy_rows_unaligned(T* tile, const T* global, std::int64_t stride, int valid_rows,
                                                 int columns, int bytes) {
  if (bytes == 8)
    copy_rows_by<8, kWidth>(tile, global, stride, valid_rows, columns);
  else
    copy_rows_by<4, kWidth>(tile, global, stride, valid_rows, columns);
}

// Starts the copy of a block of rows; rows from valid_rows on become zero.
template <int kWidth, typename T>
__device__ inline void copy_rows(T* tile, const T* global, std::int64_t stride, int valid_rows, int columns,
                                 int bytes) {
  if (bytes == 16)
    copy_rows_by<16, kWidth>(tile, global, stride, valid_rows, columns);
  else
    copy_rows_unaligned<kWidth>(tile, global, stride, valid_rows, columns, bytes);
}

// Saves a block of turned queries or keys.
template <int kWidth, typename T>
__device__ inline void save_rows(T* saved, const T* tile, const Problem<T>& problem,
                                 const typename Problem<T>::Head& at, int t) {
  constexpr int kElements = 16 / sizeof(T), kPieces = kWidth / kElements, kRows = kThreads<T> / kPieces;
  const int row = team_thread<T>() / kPieces, column = team_thread<T>() % kPieces * kElements;
  saved += problem.scalar(at, t + row) * kWidth + column;
  tile += row * kStride<kWidth> + column;
#pragma unroll
  for (int i = 0; i < kBlock<T>; i += kRows)
    if (t + row + i < at.length)
      *reinterpret_cast<uint4*>(saved + i * kWidth) = *reinterpret_cast<const uint4*>(tile + i * kStride<kWidth>);
}

// Zeroes the columns that pad the rows of `count` tiles; all threads of the block.
template <int kWidth, typename T>
__device__ inline void zero_padding(T* tiles, int count, int columns) {
  for (int row = threadIdx.x; row < count * kBlock<T>; row += blockDim.x)
    for (int column = columns; column < kWidth; column += 2)
      store_pair(tiles + row * kStride<kWidth> + column, 0.0f, 0.0f);
}

// Starts the copy of a block of queries, keys or values, the first of which stands at t, a multiple of the block; zeros
// where it is not `inside` the sequence.
template <int kWidth, typename T>
__device__ inline void copy_block(T* tile, const T* global, std::int64_t stride, const Problem<T>& problem,
                                  const typename Problem<T>::Head& at, int t, bool inside = true) {
  copy_rows<kWidth>(tile, global + problem.strided(at, t, stride, problem.head_stride), stride,
                    inside ? at.length - t : 0, problem.width, problem.copy_bytes);
}

// The same from saved queries or keys.
template <int kWidth, typename T>
__device__ inline void copy_saved(T* tile, const T* saved, const Problem<T>& problem,
                                  const typename Problem<T>::Head& at, int t, bool inside = true) {
  copy_rows_by<16, kWidth>(tile, saved + problem.scalar(at, t) * kWidth, kWidth, inside ? at.length - t : 0, kWidth);
}

// Turns blocks of rows in place, with all threads of a block: a thread owns a pair of channels of every `phases`-th
// row.
struct Turner {
  int pairs, channel, phase, phases;
  std::uint64_t turns;
  Rotation step;

  __device__ explicit Turner(const Frequencies& frequencies) : pairs(frequencies.pairs) {
    const int divisor = max(pairs, 1);
    phases = blockDim.x / divisor;
    phase = threadIdx.x / divisor;
    channel = threadIdx.x % divisor;
    turns = frequencies.turns[channel];
    step = Rotation::by(turns * phases);
  }
  // The first row of each tile stands at `position`.
  template <int kWidth, typename T, int kTiles>
  __device__ void turn(T* const (&tiles)[kTiles], std::int64_t position) const {
    if (phase >= phases || pairs == 0) return;
    Rotation rotation = Rotation::by(turns * static_cast<std::uint64_t>(position + phase));
    int offset = phase * kStride<kWidth> + channel;
    const int end = kBlock<T> * kStride<kWidth>, advance = phases * kStride<kWidth>;
    T x[kTiles], y[kTiles];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) x[i] = tiles[i][offset], y[i] = tiles[i][offset + pairs];
#pragma unroll 2
    for (; offset < end; offset += advance) {
      T next_x[kTiles], next_y[kTiles];
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const float2 turned = rotation.turn(static_cast<float>(x[i]), static_cast<float>(y[i]));
        if (offset + advance < end) {
          next_x[i] = tiles[i][offset + advance];
          next_y[i] = tiles[i][offset + advance + pairs];
        }
        tiles[i][offset] = T(turned.x);
        tiles[i][offset + pairs] = T(turned.y);
        x[i] = next_x[i], y[i] = next_y[i];
      }
      rotation = rotation.then(step);
    }
  }
};

// Stores a warp's rows, at most `rows` of 16, in pairs; rows from `valid` on as zeros. x must be finite there.
template <int kWidth, typename T>
__device__ inline void store_rows(T* global, std::int64_t stride, const Accumulator (&x)[kWidth / 8], int width,
                                  int valid, int rows) {
  const int g = lane_id() / 4, t = lane_id() % 4 * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (g + 8 * r >= rows) return;
    T* own = global + (g + 8 * r) * stride + t;
    const float factor = g + 8 * r < valid ? 1.0f : 0.0f;
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i)
      if (t + 8 * i < width) store_pair(own + 8 * i, x[i].x[2 * r] * factor, x[i].x[2 * r + 1] * factor);
  }
}

// The same, turned back and scaled; the first row stands at `position`. `staging`: 16 rows of kStride<kWidth> floats of
// the warp's own.
template <int kWidth, typename T>
__device__ inline void store_turned_back(T* global, std::int64_t stride, const Accumulator (&x)[kWidth / 8],
                                         float* staging, const Frequencies& frequencies, std::int64_t position,
                                         float scale, int width, int valid, int rows) {
  const int g = lane_id() / 4, t = lane_id() % 4 * 2, pairs = frequencies.pairs;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float factor = g + 8 * r < valid ? scale : 0.0f;
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i)
      store_pair(staging + (g + 8 * r) * kStride<kWidth> + 8 * i + t, factor * x[i].x[2 * r],
                 factor * x[i].x[2 * r + 1]);
  }
  __syncwarp();
  rows = min(rows, 16);
  for (int i = lane_id(); i < pairs; i += 32) {
    const std::uint64_t turns = frequencies.turns[i];
    Rotation rotation = Rotation::by(turns * static_cast<std::uint64_t>(position));
    const Rotation step = Rotation::by(turns);
    const float* from = staging + i;
    T* to = global + i;
#pragma unroll 4
    for (int row = 0; row < rows; ++row, from += kStride<kWidth>, to += stride) {
      const float2 turned = rotation.turn_back(from[0], from[pairs]);
      to[0] = T(turned.x);
      to[pairs] = T(turned.y);
      rotation = rotation.then(step);
    }
  }
  const int row = lane_id() % 16;
  if (row < rows)
    for (int column = 2 * pairs + lane_id() / 16 * 2; column < width; column += 4) {
      const float2 pair = load_pair(staging + row * kStride<kWidth> + column);
      store_pair(global + row * stride + column, pair.x, pair.y);
    }
}

// Zeroes a block of rows of `width` elements, at most `rows`.
template <typename T>
__device__ inline void zero_rows(T* global, std::int64_t stride, int width, int rows) {
  for (int row = team_thread<T>() / 32; row < min(rows, kBlock<T>); row += kThreads<T> / 32)
    for (int column = lane_id() * 2; column < width; column += 64)
      store_pair(global + row * stride + column, 0.0f, 0.0f);
}

// The left operand of a warp's 16 rows, kept in registers where they are few and kKeep, else loaded for each use.
template <typename T, int kWidth, bool kKeep = true>
struct Rows {
  static constexpr bool kKept = kKeep && sizeof(T) == 2 && kWidth == 64;
  FragmentA<kPlanes<T>> fragment[kKept ? kWidth / 16 : 1];
  const T* tile;

  __device__ explicit Rows(const T* rows) : tile(rows) {
    if constexpr (kKept)
#pragma unroll
      for (int step = 0; step < kWidth / 16; ++step) load_a(fragment[step], tile + step * 16, kStride<kWidth>);
  }
  // The 16 x 16 products of the rows with 16 rows of `other`.
  __device__ void multiply(Accumulator (&product)[2], const T* other) {
    product[0] = product[1] = {};
#pragma unroll
    for (int step = 0; step < kWidth / 16; ++step) {
      FragmentB<kPlanes<T>> b[2];
      load_b(b, other + step * 16, kStride<kWidth>);
      if constexpr (!kKept) load_a(fragment[0], tile + step * 16, kStride<kWidth>);
      multiply_add(product[0], fragment[kKept ? step : 0], b[0]);
      multiply_add(product[1], fragment[kKept ? step : 0], b[1]);
    }
  }
};

// sum (16 x width) += weights (16 x 16, in two accumulators) times 16 rows of `tile`.
template <int kWidth, typename T>
__device__ inline void add_weighted(Accumulator (&sum)[kWidth / 8], const Accumulator (&weight)[2], const T* tile) {
  FragmentA<kPlanes<T>> weights;
  to_fragment(weights, weight[0], weight[1]);
#pragma unroll
  for (int column = 0; column < kWidth / 16; ++column) {
    FragmentB<kPlanes<T>> b[2];
    load_b_transposed(b, tile + column * 16, kStride<kWidth>);
    multiply_add(sum[2 * column], weights, b[0]);
    multiply_add(sum[2 * column + 1], weights, b[1]);
  }
}

}  // namespace engram::attention
