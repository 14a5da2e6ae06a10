#include <cmath>
#include <cstdint>

#include "kernels/attention/short_window.cuh"
#include "kernels/attention/short_window_tile.cuh"
#include "kernels/attention/tiles.cuh"
#include "kernels/common/launch.cuh"

namespace engram::attention {
namespace {

constexpr int kBlockThreads = 128, kBlocksPerMultiprocessor = 3;

template <int kWidth>
struct Shared {
  bf16 q[kRing<kWidth>], k[kRing<kWidth>], v[kRing<kWidth>];
};

// Saves a warp's 16 turned rows, at most `rows`.
template <int kWidth>
__device__ void save(bf16* saved, const bf16* turned, int rows) {
  constexpr int kPieces = kWidth / 8;
#pragma unroll
  for (int first = 0; first < 16; first += 32 / kPieces) {
    const int row = first + lane_id() / kPieces, column = lane_id() % kPieces * 8;
    if (row < rows)
      *reinterpret_cast<uint4*>(saved + row * kWidth + column) =
          *reinterpret_cast<const uint4*>(turned + place<kWidth>(row, column));
  }
}

// The output of a warp's 16 queries, which begin at t and stand turned at q, where the output takes their place. The
// slabs that they meet stand at k and v.
template <int kWidth, int kBytes, class Slabs>
__device__ void attend(bf16* q, const bf16* k, const bf16* v, const Slabs& slabs, const Problem<bf16>& problem,
                       bf16* output, const Saved<bf16>& saved, const Problem<bf16>::Head& at, int t) {
  const int g = lane_id() / 4;
  Accumulator score[Slabs::kCount][2];
  float largest[2] = {-INFINITY, -INFINITY}, weight[2] = {};
  {
    FragmentA<1> queries[kWidth / 16];
    load_left(queries, q);
    Slabs keys = slabs;
#pragma unroll
    for (int tile = 0; tile < Slabs::kCount; ++tile, keys.next())
      if (keys.meets()) multiply(score[tile], queries, k + keys.slab);
  }
  Slabs keys = slabs;
#pragma unroll
  for (int tile = 0; tile < Slabs::kCount; ++tile, keys.next()) {
    if (!keys.meets()) continue;
    problem.mask<false>(score[tile], t, keys.step);
#pragma unroll
    for (int e = 0; e < 8; ++e) largest[e / 2 % 2] = fmaxf(largest[e / 2 % 2], score[tile][e / 4].x[e % 4]);
  }
#pragma unroll
  for (int row = 0; row < 2; ++row) {  // every query sees itself: the largest is finite
    largest[row] = fmaxf(largest[row], __shfl_xor_sync(~0u, largest[row], 1));
    largest[row] = fmaxf(largest[row], __shfl_xor_sync(~0u, largest[row], 2));
  }
  const float exponent = problem.scale * kLog2E, base[2] = {largest[0] * exponent, largest[1] * exponent};
  Accumulator sum[kWidth / 8] = {};
  Slabs values = slabs;
#pragma unroll
  for (int tile = 0; tile < Slabs::kCount; ++tile, values.next()) {
    if (!values.meets()) continue;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      float& x = score[tile][e / 4].x[e % 4];
      x = fast_exp2(x * exponent - base[e / 2 % 2]);
      weight[e / 2 % 2] += x;
    }
    add_weighted(sum, score[tile], v + values.slab);
  }
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    weight[row] += __shfl_xor_sync(~0u, weight[row], 1);
    weight[row] += __shfl_xor_sync(~0u, weight[row], 2);
    const int step = t + g + 8 * row;
    const float inverse = 1.0f / weight[row];
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i)
#pragma unroll
      for (int e = 0; e < 2; ++e) sum[i].x[2 * row + e] *= inverse;
    if (lane_id() % 4 == 0 && step < at.length)
      saved.log2_sum_exp[problem.scalar(at, step)] = base[row] + log2f(weight[row]);
  }
  store_through<false, kBytes>(q, output + problem.contiguous(at, t), problem.heads * problem.width, sum, problem.width,
                               problem.time - t, at.length - t);
}

// A block walks through `tiles` tiles of a head, blockIdx.y of such parts; the tile after is on its way. kBytes: what
// rows are aligned by, 16 or 4.
template <int kWidth, int kBytes>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerMultiprocessor)
    forward_kernel(const __grid_constant__ Problem<bf16> problem, bf16* output, const Saved<bf16> saved, int tiles) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<Shared<kWidth>*>(shared_memory);
  const auto at = problem.head(blockIdx.x);
  const int own = threadIdx.x / 32 * 16, time = problem.time;
  const int begin = blockIdx.y * tiles, part_end = min(begin + tiles, (time + kSize - 1) / kSize);
  const int end = min(part_end, (at.length + kSize - 1) / kSize);
  for (int t = max(begin, end) * kSize; t < part_end * kSize; t += kSize)
    zero_rows(output + problem.contiguous(at, t), static_cast<std::int64_t>(problem.heads) * problem.width,
              problem.width, time - t);
  if (begin >= end) return;

  const Piece<kWidth, kBlockThreads, kBytes> piece;
  const auto copy = [&](bf16* to, const bf16* from, std::int64_t row_stride, int tile) {
    const int stride = static_cast<int>(row_stride), t = tile * kSize;
    piece.copy(to, from + problem.strided(at, t, stride, problem.head_stride) + piece.offset(stride), stride,
               tile < 0 ? 0 : at.length - t, problem.width);
  };
  const auto copy_keys = [&](int to, int tile) {
    copy(shared.k + to, problem.k, problem.k_stride, tile);
    copy(shared.v + to, problem.v, problem.v_stride, tile);
  };
  int previous = 0, current = kShortTile<kWidth>, next = 2 * kShortTile<kWidth>;
  copy_keys(previous, begin - 1);
  copy_keys(current, begin);
  copy(shared.q + current, problem.q, problem.q_stride, begin);
  const PairTurner<kWidth> turner(problem.frequencies);
  for (int tile = begin; tile < end; ++tile) {
    const int t = tile * kSize + own;
    wait_for_copies();
    __syncthreads();  // the tile is there, and nobody works on the one before `previous` any more
    if (tile + 1 < end) {
      copy_keys(next, tile + 1);
      copy(shared.q + next, problem.q, problem.q_stride, tile + 1);
    }
    bf16 *q = shared.q + current + own * kWidth, *k = shared.k + current + own * kWidth;
    turner.template turn<2>({q, k}, t);
    if (tile == begin && tile > 0) turner.template turn<1>({shared.k + previous + own * kWidth}, t - kSize);
    __syncthreads();
    save<kWidth>(saved.q + problem.scalar(at, t) * kWidth, q, at.length - t);
    save<kWidth>(saved.k + problem.scalar(at, t) * kWidth, k, at.length - t);
    attend<kWidth, kBytes>(q, shared.k, shared.v, RingSlabs<kWidth>{previous + own * kWidth, t - kSize}, problem,
                           output, saved, at, t);
    const int free = previous;
    previous = current, current = next, next = free;
  }
}

// Where no query sees a key of another tile: a block for each tile. Of queries and keys nothing is saved; the backward
// pass turns them again.
template <int kWidth, int kBytes>
__global__ void __launch_bounds__(kTileThreads, kTileBlocksPerMultiprocessor<kWidth>)
    tile_kernel(const __grid_constant__ Problem<bf16> problem, bf16* output, const Saved<bf16> saved) {
  __shared__ __align__(16) bf16 q[kShortTile<kWidth>], k[kShortTile<kWidth>], v[kShortTile<kWidth>];
  const auto at = problem.head(blockIdx.x);
  const int begin = blockIdx.y * kSize, own = threadIdx.x / 32 * 16, t = begin + own;
  if (begin >= at.length)
    return zero_rows(output + problem.contiguous(at, begin), static_cast<std::int64_t>(problem.heads) * problem.width,
                     problem.width, problem.time - begin);
  const Piece<kWidth, kTileThreads, kBytes> piece;
  piece.copy_rows(q, problem, at, begin, problem.q, problem.q_stride, problem.head_stride);
  piece.copy_rows(k, problem, at, begin, problem.k, problem.k_stride, problem.head_stride);
  piece.copy_rows(v, problem, at, begin, problem.v, problem.v_stride, problem.head_stride);
  const PairTurner<kWidth> turner(problem.frequencies);
  wait_for_copies();
  __syncthreads();
  turner.template turn<2>({q + own * kWidth, k + own * kWidth}, t);
  __syncthreads();
  attend<kWidth, kBytes>(q + own * kWidth, k, v, TileSlabs<kWidth>{0, begin, problem.first_key(t), t}, problem, output,
                         saved, at, t);
}

}  // namespace

void short_window_forward(const AttentionInput& input, void* output, void* saved, cudaStream_t stream) {
  const Problem<bf16> problem = make_problem<bf16>(input);
  const bool aligned = problem.copy_bytes == 16 && copy_bytes<bf16>({output}, {}) == 16;
  const auto kept = Saved<bf16>::of(saved, input.shape);
  const auto run = [&]<int kWidth, int kBytes>() {
    if (sees_own_tile_alone(input)) {
      const dim3 blocks(problem.batch * problem.heads, (problem.time + kSize - 1) / kSize);
      launch(tile_kernel<kWidth, kBytes>, blocks, kTileThreads, 0, stream, "attention: forward, one tile", problem,
             static_cast<bf16*>(output), kept);
    } else {
      const Parts parts(problem, kBlocksPerMultiprocessor);
      launch(forward_kernel<kWidth, kBytes>, parts.grid, kBlockThreads, sizeof(Shared<kWidth>), stream,
             "attention: forward, short window", problem, static_cast<bf16*>(output), kept, parts.tiles);
    }
  };
  dispatch_tile(problem.width, aligned, run);
}

}  // namespace engram::attention
