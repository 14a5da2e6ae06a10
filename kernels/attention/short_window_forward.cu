#include <cmath>
#include <cstdint>

#include "kernels/attention/short_window.cuh"
#include "kernels/attention/short_window_tile.cuh"
#include "kernels/attention/tiles.cuh"
#include "kernels/common/launch.cuh"

namespace engram::attention {
namespace {

constexpr int kBlockThreads = 128, kBlocksPerMultiprocessor = 3;

struct Shared {
  bf16 q[kRing], k[kRing], v[kRing];
};

// Turns a warp's 16 rows of tiles in place and puts the channels in the order of turned rows; a lane owns a pair.
struct Turner {
  int left, right;      // the pair's channels
  std::uint64_t turns;  // zero from `pairs` on
  Rotation step;

  __device__ explicit Turner(const Frequencies& frequencies)
      : left(first_channel(lane_id(), frequencies.pairs)),
        right(second_channel(lane_id(), frequencies.pairs)),
        turns(frequencies.turns[lane_id()]),
        step(Rotation::by(turns)) {}

  // The first row of each tile stands at `first`.
  template <int kTiles>
  __device__ void turn(bf16* const (&rows)[kTiles], int first) const {
    constexpr int kGroup = 4;  // rows whose channels are in registers at once
    const int lane = lane_id();
    auto rotation = Rotation::near(radians(turns * static_cast<std::uint64_t>(first)));
#pragma unroll
    for (int group = 0; group < 16; group += kGroup) {
      bf16 x[kTiles][kGroup][2];
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int row = 0; row < kGroup; ++row) {
          x[i][row][0] = rows[i][place(group + row, left)];
          x[i][row][1] = rows[i][place(group + row, right)];
        }
      __syncwarp();
#pragma unroll
      for (int row = 0; row < kGroup; ++row) {
#pragma unroll
        for (int i = 0; i < kTiles; ++i) {
          const float2 turned = rotation.turn(static_cast<float>(x[i][row][0]), static_cast<float>(x[i][row][1]));
          rows[i][place(group + row, lane)] = bf16(turned.x);
          rows[i][place(group + row, lane + 32)] = bf16(turned.y);
        }
        rotation = rotation.then(step);
      }
    }
  }
};

// Saves a warp's 16 turned rows, at most `rows`.
__device__ void save(bf16* saved, const bf16* turned, int rows) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = i * 4 + lane_id() / 8, column = lane_id() % 8 * 8;
    if (row < rows)
      *reinterpret_cast<uint4*>(saved + row * kWidth + column) =
          *reinterpret_cast<const uint4*>(turned + place(row, column));
  }
}

// The output of a warp's 16 queries, which begin at t, row `own` of a tile, and stand turned at q, where the output
// takes their place. Their keys and values begin in the tile at `previous` of the rings.
template <int kBytes>
__device__ void attend(Shared& shared, bf16* q, int previous, const Problem<bf16>& problem, bf16* output,
                       const Saved<bf16>& saved, const Problem<bf16>::Head& at, int t, int own) {
  const int g = lane_id() / 4;
  Accumulator score[kReach][2];
  float largest[2] = {-INFINITY, -INFINITY}, weight[2] = {};
  int slab[kReach] = {previous + own * kWidth};
#pragma unroll
  for (int tile = 1; tile < kReach; ++tile) slab[tile] = next_slab(slab[tile - 1]);
  {
    FragmentA<1> queries[kWidth / 16];
    load_left(queries, q);
#pragma unroll
    for (int tile = 0; tile < kReach; ++tile) multiply(score[tile], queries, shared.k + slab[tile]);
  }
#pragma unroll
  for (int tile = 0; tile < kReach; ++tile) {
    problem.mask<false>(score[tile], t, t - kSize + tile * 16);
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
#pragma unroll
  for (int tile = 0; tile < kReach; ++tile) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      float& x = score[tile][e / 4].x[e % 4];
      x = exp2_flushed(x * exponent - base[e / 2 % 2]);
      weight[e / 2 % 2] += x;
    }
    add_weighted(sum, score[tile], shared.v + slab[tile]);
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
template <int kBytes>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerMultiprocessor)
    forward_kernel(const __grid_constant__ Problem<bf16> problem, bf16* output, const Saved<bf16> saved, int tiles) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<Shared*>(shared_memory);
  const auto at = problem.head(blockIdx.x);
  const int own = threadIdx.x / 32 * 16, time = problem.time;
  const int begin = blockIdx.y * tiles, part_end = min(begin + tiles, (time + kSize - 1) / kSize);
  const int end = min(part_end, (at.length + kSize - 1) / kSize);
  for (int t = max(begin, end) * kSize; t < part_end * kSize; t += kSize)
    zero_rows(output + problem.contiguous(at, t), static_cast<std::int64_t>(problem.heads) * problem.width,
              problem.width, time - t);
  if (begin >= end) return;

  const Piece<kBlockThreads, kBytes> piece;
  const auto copy = [&](bf16* to, const bf16* from, std::int64_t row_stride, int tile) {
    const int stride = static_cast<int>(row_stride), t = tile * kSize;
    piece.copy(to, from + problem.strided(at, t, stride, problem.head_stride) + piece.offset(stride), stride,
               tile < 0 ? 0 : at.length - t, problem.width);
  };
  const auto copy_keys = [&](int to, int tile) {
    copy(shared.k + to, problem.k, problem.k_stride, tile);
    copy(shared.v + to, problem.v, problem.v_stride, tile);
  };
  int previous = 0, current = kShortTile, next = 2 * kShortTile;
  copy_keys(previous, begin - 1);
  copy_keys(current, begin);
  copy(shared.q + current, problem.q, problem.q_stride, begin);
  const Turner turner(problem.frequencies);
  for (int tile = begin; tile < end; ++tile) {
    const int t = tile * kSize + own;
    wait_for_copies();
    __syncthreads();  // the tile is there, and nobody works on the one before `previous` any more
    if (tile + 1 < end) {
      copy_keys(next, tile + 1);
      copy(shared.q + next, problem.q, problem.q_stride, tile + 1);
    }
    bf16 *q = shared.q + current + own * kWidth, *k = shared.k + current + own * kWidth;
    turner.turn<2>({q, k}, t);
    if (tile == begin && tile > 0) turner.turn<1>({shared.k + previous + own * kWidth}, t - kSize);
    __syncthreads();
    save(saved.q + problem.scalar(at, t) * kWidth, q, at.length - t);
    save(saved.k + problem.scalar(at, t) * kWidth, k, at.length - t);
    attend<kBytes>(shared, q, previous, problem, output, saved, at, t, own);
    const int free = previous;
    previous = current, current = next, next = free;
  }
}

}  // namespace

void short_window_forward(const AttentionInput& input, void* output, void* saved, cudaStream_t stream) {
  const Problem<bf16> problem = make_problem<bf16>(input);
  const bool aligned = problem.copy_bytes == 16 && copy_bytes<bf16>({output}, {}) == 16;
  const Parts parts(problem, kBlocksPerMultiprocessor);
  launch(aligned ? forward_kernel<16> : forward_kernel<4>, parts.grid, kBlockThreads, sizeof(Shared), stream,
         "attention: forward, short window", problem, static_cast<bf16*>(output), Saved<bf16>::of(saved, input.shape),
         parts.tiles);
}

}  // namespace engram::attention
