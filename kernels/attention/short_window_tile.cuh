// What the kernels over short windows share: tiles of 64 rows of 32 or 64 elements in shared memory without padding,
// copies to and from them, and the order of channels in which turned queries and keys are kept.
//
// That order puts pair i of rotary positions (channels i and i + R / 2) at i and i + kWidth / 2, whatever R is: both
// then stand in one lane's accumulators, and a gradient is turned back in registers. Channels from R on fill the places
// left. Products of queries and keys do not depend on the order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/attention/problem.cuh"
#include "kernels/attention/rotary.cuh"
#include "kernels/common/tensor_core.cuh"

namespace engram::attention {

constexpr int kSize = kBlock<bf16>;  // rows of a tile
template <int kWidth>
constexpr int kShortTile = kSize* kWidth;
template <int kWidth>
constexpr int kSlab = 16 * kWidth;  // elements of 16 rows

// Tiles in a ring: the one before, the one at hand, and the one on its way.
template <int kWidth>
constexpr int kRing = 3 * kShortTile<kWidth>;

// The slabs of 16 rows that a warp's 16 rows meet, one after the other: where each stands, and its first step.
// In a ring: five in a row.
template <int kWidth>
struct RingSlabs {
  static constexpr int kCount = 5;
  int slab, step;
  __device__ bool meets() const { return true; }
  __device__ void next() {
    slab = slab + kSlab<kWidth> == kRing<kWidth> ? 0 : slab + kSlab<kWidth>;
    step += 16;
  }
};
// In a tile that is worked on by itself: those of its four that reach steps from .. last.
template <int kWidth>
struct TileSlabs {
  static constexpr int kCount = 4;
  int slab, step, from, last;
  __device__ bool meets() const { return step + 15 >= from && step <= last; }
  __device__ void next() {
    slab += kSlab<kWidth>;
    step += 16;
  }
};

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

// Blocks that work on one tile, as many as registers allow.
constexpr int kTileThreads = 128;
template <int kWidth>
constexpr int kTileBlocksPerMultiprocessor = kWidth == 64 ? 4 : 5;

// Calls function<width of a tile, bytes that rows are aligned by>().
template <class Function>
void dispatch_tile(int width, bool aligned, Function&& function) {
  if (width <= 32)
    aligned ? function.template operator()<32, 16>() : function.template operator()<32, 4>();
  else
    aligned ? function.template operator()<64, 16>() : function.template operator()<64, 4>();
}

// Where (row, column) stands. The row turns the order of the 16-byte pieces, which puts eight rows' pieces, read or
// written at once, into different banks.
template <int kWidth>
__device__ inline int place(int row, int column) {
  return row * kWidth + (column ^ (kWidth == 64 ? row % 8 : row / 2 % 4) * 8);
}

// The channel that stands at place i, and at i + kWidth / 2, i < kWidth / 2, of a turned query or key.
__device__ inline int first_channel(int i, int pairs) { return i < pairs ? i : i + pairs; }
template <int kWidth>
__device__ inline int second_channel(int i, int pairs) {
  return i < pairs ? i + pairs : i + kWidth / 2;
}

// The part of one of kThreads in copies of 64 rows, by pieces of kBytes: the piece that begins at (row, column) and
// those of every kRows-th row after it.
template <int kWidth, int kThreads, int kBytes>
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
      copy_async<kBytes>(tile + place<kWidth>(row + i, column), from + static_cast<std::int64_t>(i) * stride,
                         row + i < rows);
  }
  // The same of a head's rows t .. t + 63 of q, k or v, or of rows like theirs with heads `head_stride` apart.
  __device__ void copy_rows(bf16* tile, const Problem<bf16>& problem, const Problem<bf16>::Head& at, int t,
                            const bf16* from, std::int64_t row_stride, std::int64_t head_stride) const {
    const int stride = static_cast<int>(row_stride);
    copy(tile, from + problem.strided(at, t, stride, head_stride) + offset(stride), stride, at.length - t,
         problem.width);
  }
};

// Turns a warp's 16 rows of tiles in place and puts the channels in the order of turned rows; a lane owns a pair of
// every row, or of every other one.
template <int kWidth>
struct PairTurner {
  static constexpr int kPairs = kWidth / 2, kAtOnce = 32 / kPairs;
  int pair, own_row;
  int left, right;      // the pair's channels
  std::uint64_t turns;  // zero from the rotary pairs on
  Rotation step;

  __device__ explicit PairTurner(const Frequencies& frequencies)
      : pair(lane_id() % kPairs),
        own_row(lane_id() / kPairs),
        left(first_channel(pair, frequencies.pairs)),
        right(second_channel<kWidth>(pair, frequencies.pairs)),
        turns(frequencies.turns[pair]),
        step(Rotation::by(turns * kAtOnce)) {}

  // The first row of each tile stands at `first`.
  template <int kTiles>
  __device__ void turn(bf16* const (&rows)[kTiles], int first) const {
    constexpr int kGroup = 4;  // rows whose channels are in registers at once
    auto rotation = Rotation::near(radians(turns * static_cast<std::uint64_t>(first + own_row)));
#pragma unroll
    for (int group = 0; group < 16; group += kGroup * kAtOnce) {
      bf16 x[kTiles][kGroup][2];
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int row = 0; row < kGroup; ++row) {
          x[i][row][0] = rows[i][place<kWidth>(group + row * kAtOnce + own_row, left)];
          x[i][row][1] = rows[i][place<kWidth>(group + row * kAtOnce + own_row, right)];
        }
      __syncwarp();
#pragma unroll
      for (int row = 0; row < kGroup; ++row) {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
          const float2 turned = rotation.turn(static_cast<float>(x[i][row][0]), static_cast<float>(x[i][row][1]));
          rows[i][place<kWidth>(group + row * kAtOnce + own_row, pair)] = bf16(turned.x);
          rows[i][place<kWidth>(group + row * kAtOnce + own_row, pair + kPairs)] = bf16(turned.y);
        }
        rotation = rotation.then(step);
      }
    }
  }
};

// The left operands of 16 rows.
template <int kSteps>
__device__ inline void load_left(FragmentA<1> (&left)[kSteps], const bf16* rows) {
  constexpr int kWidth = 16 * kSteps;
  const int lane = lane_id();
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    load_matrices<false>(left[step].plane[0], rows + place<kWidth>(lane % 16, step * 16 + lane / 16 * 8));
}

// The 16 x 16 products of `left` with 16 rows.
template <int kSteps>
__device__ inline void multiply(Accumulator (&product)[2], const FragmentA<1> (&left)[kSteps], const bf16* rows) {
  constexpr int kWidth = 16 * kSteps;
  const int lane = lane_id();
  product[0] = product[1] = {};
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    std::uint32_t x[4];
    load_matrices<false>(x, rows + place<kWidth>(lane % 8 + lane / 16 * 8, step * 16 + lane / 8 % 2 * 8));
    multiply_add(product[0], left[step], FragmentB<1>{{{x[0], x[1]}}});
    multiply_add(product[1], left[step], FragmentB<1>{{{x[2], x[3]}}});
  }
}

// sum (16 x kWidth) += weights (16 x 16, in two accumulators) times 16 rows.
template <int kColumns>
__device__ inline void add_weighted(Accumulator (&sum)[kColumns], const Accumulator (&weight)[2], const bf16* rows) {
  constexpr int kWidth = 8 * kColumns;
  const int lane = lane_id();
  FragmentA<1> weights;
  to_fragment(weights, weight[0], weight[1]);
#pragma unroll
  for (int step = 0; step < kWidth / 16; ++step) {
    std::uint32_t x[4];
    load_matrices<true>(x, rows + place<kWidth>(lane % 16, step * 16 + lane / 16 * 8));
    multiply_add(sum[2 * step], weights, FragmentB<1>{{{x[0], x[1]}}});
    multiply_add(sum[2 * step + 1], weights, FragmentB<1>{{{x[2], x[3]}}});
  }
}

// Stores a warp's 16 rows of `width` elements, at most `rows`, and zeros in those from `valid` on, in pieces of kBytes,
// by which `global` and `width` must be aligned. kTurned: the columns of x stand in the order of turned queries and
// keys. staging: 16 rows of a tile, the warp's own.
template <bool kTurned, int kBytes, int kColumns>
__device__ inline void store_through(bf16* staging, bf16* global, int stride, const Accumulator (&x)[kColumns],
                                     int width, int rows, int valid, int pairs = 0) {
  constexpr int kWidth = 8 * kColumns;
  const int lane = lane_id(), g = lane / 4, c = lane % 4 * 2;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kColumns; ++n)
    if constexpr (kTurned) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int i = n % (kColumns / 2) * 8 + c + e;
        const int channel = n < kColumns / 2 ? first_channel(i, pairs) : second_channel<kWidth>(i, pairs);
        bf16* to = staging + place<kWidth>(g, channel);
        to[0] = bf16(x[n].x[e]);
        to[8 * kWidth] = bf16(x[n].x[2 + e]);
      }
    } else {
      bf16* to = staging + place<kWidth>(g, 8 * n + c);
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
          row < valid ? *reinterpret_cast<const Vector*>(staging + place<kWidth>(row, column)) : Vector{};
}

}  // namespace engram::attention
