// What the kernels over short windows share: tiles of 64 rows of 64 elements in shared memory without padding, copies
// to and from them, and the order of channels in which turned queries and keys are kept.
//
// That order puts pair i of rotary positions (channels i and i + R / 2) at i and i + 32, whatever R is: both then stand
// in one lane's accumulators, and a gradient is turned back in registers. Channels from R on fill the places left.
// Products of queries and keys do not depend on the order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/attention/problem.cuh"
#include "kernels/attention/rotary.cuh"
#include "kernels/common/tensor_core.cuh"

namespace engram::attention {

constexpr int kSize = kBlock<bf16>, kWidth = 64, kShortTile = kSize * kWidth;
constexpr int kReach = 5;           // tiles of 16 steps that a warp's 16 rows meet
constexpr int kSlab = 16 * kWidth;  // elements of 16 rows

// Tiles in a ring: the one before, the one at hand, and the one on its way.
constexpr int kRing = 3 * kShortTile;
__device__ inline int next_slab(int slab) { return slab + kSlab == kRing ? 0 : slab + kSlab; }

// How heads are cut into parts, a block's each: so that blocks which `resident` at once to a multiprocessor hold end
// first, each with a step more than it has tiles. Results do not depend on it.
struct Parts {
  int tiles;
  dim3 grid;

  Parts(const Problem<bf16>& problem, int resident) {
    static const int multiprocessors = cuda_device_attribute(cudaDevAttrMultiProcessorCount);
    const int heads = problem.batch * problem.heads, all = (problem.time + kSize - 1) / kSize;
    const auto steps = [&](int part) {
      const std::int64_t blocks = static_cast<std::int64_t>(heads) * ((all + part - 1) / part);
      const int at_once = resident * multiprocessors;
      return (blocks + at_once - 1) / at_once * (part + 1);
    };
    tiles = all;
    for (int part = all - 1; part > 0; --part)
      if (steps(part) < steps(tiles)) tiles = part;
    grid = dim3(heads, (all + tiles - 1) / tiles);
  }
};

// Where (row, column) stands. The row turns the order of the 16-byte pieces, which puts eight rows' pieces, read or
// written at once, into different banks.
__device__ inline int place(int row, int column) { return row * kWidth + (column ^ row % 8 * 8); }

// The channel that stands at place i, and at i + 32, i < 32, of a turned query or key.
__device__ inline int first_channel(int i, int pairs) { return i < pairs ? i : i + pairs; }
__device__ inline int second_channel(int i, int pairs) { return i < pairs ? i + pairs : i + 32; }

// The part of one of kThreads in copies of 64 rows, by pieces of kBytes: the piece that begins at (row, column) and
// those of every kRows-th row after it.
template <int kThreads, int kBytes>
struct Piece {
  static constexpr int kElements = kBytes / 2, kPieces = kWidth / kElements, kRows = kThreads / kPieces;
  int row, column;
  __device__ Piece() : row(threadIdx.x / kPieces), column(threadIdx.x % kPieces * kElements) {}

  __device__ std::int64_t offset(int stride) const { return static_cast<std::int64_t>(row) * stride + column; }
  // Starts the copy of `columns` elements of rows; `from` is the first row's begin plus offset(stride). Zeros from row
  // `rows` on and after `columns`.
  __device__ void copy(bf16* tile, const bf16* from, int stride, int rows, int columns) const {
    if (column >= columns) rows = 0;
#pragma unroll
    for (int i = 0; i < kSize; i += kRows)
      copy_async<kBytes>(tile + place(row + i, column), from + static_cast<std::int64_t>(i) * stride, row + i < rows);
  }
};

// The left operands of 16 rows.
__device__ inline void load_left(FragmentA<1> (&left)[kWidth / 16], const bf16* rows) {
  const int lane = lane_id();
#pragma unroll
  for (int step = 0; step < kWidth / 16; ++step)
    load_matrices<false>(left[step].plane[0], rows + place(lane % 16, step * 16 + lane / 16 * 8));
}

// The 16 x 16 products of `left` with 16 rows.
__device__ inline void multiply(Accumulator (&product)[2], const FragmentA<1> (&left)[kWidth / 16], const bf16* rows) {
  const int lane = lane_id();
  product[0] = product[1] = {};
#pragma unroll
  for (int step = 0; step < kWidth / 16; ++step) {
    std::uint32_t x[4];
    load_matrices<false>(x, rows + place(lane % 8 + lane / 16 * 8, step * 16 + lane / 8 % 2 * 8));
    multiply_add(product[0], left[step], FragmentB<1>{{{x[0], x[1]}}});
    multiply_add(product[1], left[step], FragmentB<1>{{{x[2], x[3]}}});
  }
}

// sum (16 x 64) += weights (16 x 16, in two accumulators) times 16 rows.
__device__ inline void add_weighted(Accumulator (&sum)[kWidth / 8], const Accumulator (&weight)[2], const bf16* rows) {
  const int lane = lane_id();
  FragmentA<1> weights;
  to_fragment(weights, weight[0], weight[1]);
#pragma unroll
  for (int step = 0; step < kWidth / 16; ++step) {
    std::uint32_t x[4];
    load_matrices<true>(x, rows + place(lane % 16, step * 16 + lane / 16 * 8));
    multiply_add(sum[2 * step], weights, FragmentB<1>{{{x[0], x[1]}}});
    multiply_add(sum[2 * step + 1], weights, FragmentB<1>{{{x[2], x[3]}}});
  }
}

// Stores a warp's 16 rows of `width` elements, at most `rows`, and zeros in those from `valid` on, in pieces of kBytes,
// by which `global` and `width` must be aligned. kTurned: the columns of x stand in the order of turned queries and
// keys. staging: 16 rows of a tile, the warp's own.
template <bool kTurned, int kBytes>
__device__ inline void store_through(bf16* staging, bf16* global, int stride, const Accumulator (&x)[kWidth / 8],
                                     int width, int rows, int valid, int pairs = 0) {
  const int lane = lane_id(), g = lane / 4, c = lane % 4 * 2;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n)
    if constexpr (kTurned) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int i = n % 4 * 8 + c + e;
        bf16* to = staging + place(g, n < 4 ? first_channel(i, pairs) : second_channel(i, pairs));
        to[0] = bf16(x[n].x[e]);
        to[8 * kWidth] = bf16(x[n].x[2 + e]);
      }
    } else {
      bf16* to = staging + place(g, 8 * n + c);
      store_pair(to, x[n].x[0], x[n].x[1]);
      store_pair(to + 8 * kWidth, x[n].x[2], x[n].x[3]);
    }
  __syncwarp();
  using Vector = std::conditional_t<kBytes == 16, uint4, std::uint32_t>;
  constexpr int kElements = kBytes / 2, kPieces = kWidth / kElements;
  const int column = lane % kPieces * kElements;
  if (column >= width) return;
#pragma unroll(kBytes == 16 ? 4 : 1)
  for (int row = lane / kPieces; row < 16; row += 32 / kPieces)
    if (row < rows)
      *reinterpret_cast<Vector*>(global + static_cast<std::int64_t>(row) * stride + column) =
          row < valid ? *reinterpret_cast<const Vector*>(staging + place(row, column)) : Vector{};
}

}  // namespace engram::attention
