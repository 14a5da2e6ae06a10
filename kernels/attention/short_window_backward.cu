#include <cstdint>

#include "kernels/attention/short_window.cuh"
#include "kernels/attention/short_window_tile.cuh"
#include "kernels/attention/tiles.cuh"
#include "kernels/common/launch.cuh"

namespace engram::attention {
namespace {

constexpr int kBlockThreads = 256, kBlocksPerMultiprocessor = 2;

template <int kWidth>
struct Shared {
  bf16 q[kRing<kWidth>], d_output[kRing<kWidth>], k[kRing<kWidth>], v[kRing<kWidth>];
  bf16 staging[kBlockThreads / 32][kSlab<kWidth>];
  alignas(16) float2 softmax[2 * kSize];  // log2_sum_exp and scale * mean of queries: of even tiles, of odd ones
};
static_assert(sizeof(Shared<64>) == kShortWindowSharedBytes);

// Where a step's stands.
__device__ inline int softmax_place(int step) { return step % (2 * kSize); }

// Where a block of the kernel is: at tile `tile`, whose rows stand at `current` in the rings, those before it at
// `previous`.
struct Position {
  int tile, previous, current;
};

// What a query warp finds of 16 queries of each tile, for itself and for the key warps: fetched from global memory
// while others work on the tile before, and put into shared memory when d_output is there.
template <int kWidth, int kBytes>
struct Softmax {
  static constexpr int kHalves = kWidth / 32;
  const bf16* next_output;  // of row g, channel 8 t
  const float* next_log2_sum_exp;
  std::uint32_t output[2][kHalves][4];  // of rows g and g + 8 eight channels from 8 t and from 8 t + 32 on
  float log2_sum_exp[2];

  __device__ Softmax(const Problem<bf16>& problem, const Gradient<bf16>& gradient, const Problem<bf16>::Head& at,
                     int first)
      : next_output(gradient.output + problem.contiguous(at, first + lane_id() / 4) + lane_id() % 4 * 8),
        next_log2_sum_exp(gradient.saved.log2_sum_exp + problem.scalar(at, first + lane_id() / 4)) {}

  // Of the next tile; `rows` of those from the warp's first on lie inside the sequence.
  __device__ void fetch(int stride, int rows, int width) {
    const int g = lane_id() / 4, column = lane_id() % 4 * 8;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const bool inside = g + 8 * row < rows;
      const bf16* from = next_output + static_cast<std::int64_t>(8 * row) * stride;
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int i = 0; i < 8; i += kBytes / 2) {
          const bf16* piece = from + 32 * half + i;
          std::uint32_t* to = output[row][half] + i / 2;
          const bool valid = inside && column + 32 * half + i < width;
          if constexpr (kBytes == 16) {
            const uint4 x = valid ? *reinterpret_cast<const uint4*>(piece) : uint4{};
            to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
          } else {
            to[0] = valid ? *reinterpret_cast<const std::uint32_t*>(piece) : 0u;
          }
        }
      log2_sum_exp[row] = inside ? next_log2_sum_exp[8 * row] : 0.0f;
    }
    next_output += static_cast<std::int64_t>(kSize) * stride;
    next_log2_sum_exp += kSize;
  }
  // The means are the diagonal of d_output (16 x kWidth) times output^T; the order of the channels is the same in both.
  __device__ void put(float2* softmax, const bf16* d_output, float scale) const {
    const int g = lane_id() / 4, t = lane_id() % 4;
    Accumulator product[2] = {};
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const uint4 top = *reinterpret_cast<const uint4*>(d_output + place<kWidth>(g, 8 * t + 32 * half));
      const uint4 bottom = *reinterpret_cast<const uint4*>(d_output + place<kWidth>(g + 8, 8 * t + 32 * half));
      const FragmentA<1> left[2] = {{{{top.x, bottom.x, top.y, bottom.y}}}, {{{top.z, bottom.z, top.w, bottom.w}}}};
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int row = 0; row < 2; ++row)
          multiply_add(product[row], left[i], FragmentB<1>{{{output[row][half][2 * i], output[row][half][2 * i + 1]}}});
    }
    if (t == g / 2) {
      softmax[g] = make_float2(log2_sum_exp[0], scale * (g % 2 == 0 ? product[0].x[0] : product[0].x[1]));
      softmax[g + 8] = make_float2(log2_sum_exp[1], scale * (g % 2 == 0 ? product[1].x[2] : product[1].x[3]));
    }
  }
};

// Turns back a warp's 16 rows of gradients, of which the first stands at `first`.
template <int kColumns>
__device__ void turn_back(Accumulator (&x)[kColumns], const Frequencies& frequencies, int first) {
  const int g = lane_id() / 4, c = lane_id() % 4 * 2;
  const std::uint64_t turns = frequencies.turns[lane_id()];  // zero from `pairs` on
  const float base = radians(turns * static_cast<std::uint64_t>(first)), rate = radians(turns);
#pragma unroll
  for (int n = 0; n < kColumns / 2; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float of_pair = __shfl_sync(~0u, base, 8 * n + c + e), by_row = __shfl_sync(~0u, rate, 8 * n + c + e);
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        float &left = x[n].x[2 * row + e], &right = x[n + kColumns / 2].x[2 * row + e];
        const auto rotation = Rotation::near(of_pair + static_cast<float>(g + 8 * row) * by_row);
        const float2 turned = rotation.turn_back(left, right);
        left = turned.x;
        right = turned.y;
      }
    }
}

// Where the rows stand that a warp and what it meets need: turned queries and keys, of tiles in a ring or of one.
struct Tiles {
  const bf16 *q, *d_output, *k, *v;
  const float2* softmax;
};

// The gradients of 16 queries, whose first, `first`, stands at `own`; `slabs`: of keys.
template <int kWidth, int kBytes, class Slabs>
__device__ void query_gradient(const Tiles& tiles, int own, Slabs slabs, bf16* staging, const Problem<bf16>& problem,
                               const Gradient<bf16>& gradient, const Problem<bf16>::Head& at, int first) {
  const float exponent = problem.scale * kLog2E;
  const float2* own_softmax = tiles.softmax + softmax_place(first) + lane_id() / 4;
  const float2 softmax[2] = {own_softmax[0], own_softmax[8]};
  FragmentA<1> queries[kWidth / 16], d_outputs[kWidth / 16];
  load_left(queries, tiles.q + own);
  load_left(d_outputs, tiles.d_output + own);
  Accumulator sum[kWidth / 8] = {};
#pragma unroll
  for (int tile = 0; tile < Slabs::kCount; ++tile, slabs.next()) {
    if (!slabs.meets()) continue;
    Accumulator score[2], d_weight[2];
    multiply(score, queries, tiles.k + slabs.slab);
    multiply(d_weight, d_outputs, tiles.v + slabs.slab);
    problem.mask<false>(score, first, slabs.step);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      float& x = score[e / 4].x[e % 4];
      const float2 of_query = softmax[e / 2 % 2];
      x = fast_exp2(x * exponent - of_query.x) * (problem.scale * d_weight[e / 4].x[e % 4] - of_query.y);
    }
    add_weighted(sum, score, tiles.k + slabs.slab);
  }
  turn_back(sum, problem.frequencies, first);
  store_through<true, kBytes>(staging, gradient.q + problem.strided(at, first, gradient.q_stride, gradient.head_stride),
                              static_cast<int>(gradient.q_stride), sum, problem.width, problem.time - first,
                              at.length - first, problem.frequencies.pairs);
}

// The gradients of 16 keys and values, whose first, `first`, stands at `own`; `slabs`: of queries. Weights transposed.
template <int kWidth, int kBytes, class Slabs>
__device__ void key_gradient(const Tiles& tiles, int own, Slabs slabs, bf16* staging, const Problem<bf16>& problem,
                             const Gradient<bf16>& gradient, const Problem<bf16>::Head& at, int first) {
  const int c = lane_id() % 4 * 2;
  const float exponent = problem.scale * kLog2E;
  FragmentA<1> keys[kWidth / 16];
  load_left(keys, tiles.k + own);
  Accumulator sum_k[kWidth / 8] = {}, sum_v[kWidth / 8] = {};
#pragma unroll
  for (int tile = 0; tile < Slabs::kCount; ++tile, slabs.next()) {
    if (!slabs.meets()) continue;
    Accumulator weight[2], d_score[2];
    multiply(weight, keys, tiles.q + slabs.slab);
    FragmentA<1> values[kWidth / 16];  // anew each time: there are registers for `keys` only
    load_left(values, tiles.v + own);
    multiply(d_score, values, tiles.d_output + slabs.slab);
    problem.mask<true>(weight, slabs.step, first);
    const float2* softmax = tiles.softmax + softmax_place(slabs.step) + c;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 of_queries = *reinterpret_cast<const float4*>(softmax + half * 8);  // of two beside each other
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float &x = weight[half].x[e], &d = d_score[half].x[e];
        x = fast_exp2(x * exponent - (e % 2 == 0 ? of_queries.x : of_queries.z));
        d = x * (problem.scale * d - (e % 2 == 0 ? of_queries.y : of_queries.w));
      }
    }
    add_weighted(sum_v, weight, tiles.d_output + slabs.slab);
    add_weighted(sum_k, d_score, tiles.q + slabs.slab);
  }
  const int rows = problem.time - first, valid = at.length - first;
  store_through<false, kBytes>(staging,
                               gradient.v + problem.strided(at, first, gradient.v_stride, gradient.head_stride),
                               static_cast<int>(gradient.v_stride), sum_v, problem.width, rows, valid);
  turn_back(sum_k, problem.frequencies, first);
  store_through<true, kBytes>(staging, gradient.k + problem.strided(at, first, gradient.k_stride, gradient.head_stride),
                              static_cast<int>(gradient.k_stride), sum_k, problem.width, rows, valid,
                              problem.frequencies.pairs);
}

// The walk of a block through tiles begin .. end - 1 of a head, as its first four warps (kQueries) and its last four
// see it.
template <int kWidth, int kBytes, bool kQueries>
__device__ void walk(Shared<kWidth>& shared, const Problem<bf16>& problem, const Gradient<bf16>& gradient,
                     const Problem<bf16>::Head& at, int begin, int end) {
  const int warp = threadIdx.x / 32, own = warp % 4 * 16;
  const int v_stride = static_cast<int>(problem.v_stride), output_stride = problem.heads * problem.width;
  const Piece<kWidth, kBlockThreads, 16> saved_piece;
  const Piece<kWidth, kBlockThreads, kBytes> piece;
  const Tiles tiles{shared.q, shared.d_output, shared.k, shared.v, shared.softmax};
  // What is copied next, from the tile before `begin` on.
  int rows = at.length - (begin - 1) * kSize;
  std::int64_t saved = problem.scalar(at, (begin - 1) * kSize) * kWidth + saved_piece.offset(kWidth);
  const bf16* v =
      problem.v + problem.strided(at, (begin - 1) * kSize, v_stride, problem.head_stride) + piece.offset(v_stride);
  const bf16* d_output = gradient.d_output + problem.contiguous(at, (begin - 1) * kSize) + piece.offset(output_stride);
  const auto copy_keys = [&](int to, bool inside = true) {
    saved_piece.copy(shared.k + to, gradient.saved.k + saved, kWidth, inside ? rows : 0, kWidth);
    piece.copy(shared.v + to, v, v_stride, inside ? rows : 0, problem.width);
  };
  const auto copy_queries = [&](int to) {
    saved_piece.copy(shared.q + to, gradient.saved.q + saved, kWidth, rows, kWidth);
    piece.copy(shared.d_output + to, d_output, output_stride, rows, problem.width);
  };
  const auto advance = [&] {
    rows -= kSize;
    saved += kShortTile<kWidth>;
    v += static_cast<std::int64_t>(kSize) * v_stride;
    d_output += static_cast<std::int64_t>(kSize) * output_stride;
  };
  Position position{begin, 0, kShortTile<kWidth>};
  int next = 2 * kShortTile<kWidth>;
  copy_keys(position.previous, begin > 0);
  advance();
  copy_keys(position.current);
  copy_queries(position.current);
  Softmax<kWidth, kBytes> softmax(problem, gradient, at, begin * kSize + own);
  if constexpr (kQueries) softmax.fetch(output_stride, rows - own, problem.width);

  for (;; ++position.tile) {
    const int tile = position.tile;
    wait_for_copies();
    __syncthreads();  // the tile is there, and nobody works on the one before `previous` any more
    advance();
    if (tile < end) copy_queries(next);
    if (tile + 1 < end) copy_keys(next);
    if constexpr (kQueries)
      softmax.put(shared.softmax + softmax_place(tile * kSize + own), shared.d_output + position.current + own * kWidth,
                  problem.scale);
    __syncthreads();
    if constexpr (!kQueries)
      if (tile > begin) {
        const int at_own = position.previous + own * kWidth, first = (tile - 1) * kSize + own;
        key_gradient<kWidth, kBytes>(tiles, at_own, RingSlabs<kWidth>{at_own, first}, shared.staging[warp], problem,
                                     gradient, at, first);
      }
    if (tile == end) return;
    if constexpr (kQueries) {
      const int first = tile * kSize + own;
      query_gradient<kWidth, kBytes>(
          tiles, position.current + own * kWidth,
          RingSlabs<kWidth>{position.previous + own * kWidth, first - kSize},  // 64 steps before the first query
          shared.staging[warp], problem, gradient, at, first);
      softmax.fetch(output_stride, rows - own, problem.width);
    }
    const int free = position.previous;
    position.previous = position.current, position.current = next, next = free;
  }
}

// A block walks through `tiles` tiles of a head, blockIdx.y of such parts: the first four warps find the gradients of a
// tile's queries while the last four find those of the keys and values of the tile before, and the tile after is on its
// way. Every gradient has one warp that sums it in one order, wherever parts begin.
// kBytes: what rows are aligned by, 16 or 4.
template <int kWidth, int kBytes>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerMultiprocessor)
    backward_kernel(const __grid_constant__ Problem<bf16> problem, const __grid_constant__ Gradient<bf16> gradient,
                    int tiles) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<Shared<kWidth>*>(shared_memory);
  const auto at = problem.head(blockIdx.x);
  const bool for_queries = threadIdx.x < kBlockThreads / 2;
  const int begin = blockIdx.y * tiles, part_end = min(begin + tiles, (problem.time + kSize - 1) / kSize);
  const int end = min(part_end, (at.length + kSize - 1) / kSize);

  for (int tile = max(begin, end); tile < part_end; ++tile) {
    const int t = tile * kSize;
    const auto zero = [&](bf16* x, std::int64_t stride) {
      zero_rows(x + problem.strided(at, t, stride, gradient.head_stride), stride, problem.width, problem.time - t);
    };
    if (for_queries) {
      zero(gradient.q, gradient.q_stride);
    } else {
      zero(gradient.k, gradient.k_stride);
      zero(gradient.v, gradient.v_stride);
    }
  }
  if (begin >= end) return;
  if (for_queries)
    walk<kWidth, kBytes, true>(shared, problem, gradient, at, begin, end);
  else
    walk<kWidth, kBytes, false>(shared, problem, gradient, at, begin, end);
}

template <int kWidth>
struct TileShared {
  bf16 q[kShortTile<kWidth>], d_output[kShortTile<kWidth>], k[kShortTile<kWidth>], v[kShortTile<kWidth>];
  bf16 staging[kTileThreads / 32][kSlab<kWidth>];
  alignas(16) float2 softmax[2 * kSize];
};

// Where no query sees a key of another tile: a block for each tile, a warp for 16 of its queries, then for its 16 keys,
// which together meet five slabs of the four.
template <int kWidth, int kBytes>
__global__ void __launch_bounds__(kTileThreads, kTileBlocksPerMultiprocessor<kWidth>)
    tile_kernel(const __grid_constant__ Problem<bf16> problem, const __grid_constant__ Gradient<bf16> gradient) {
  __shared__ TileShared<kWidth> shared;
  const auto at = problem.head(blockIdx.x);
  const int warp = threadIdx.x / 32, own = warp * 16, begin = blockIdx.y * kSize, first = begin + own;
  if (begin >= at.length) {
    const auto zero = [&](bf16* x, std::int64_t stride) {
      zero_rows(x + problem.strided(at, begin, stride, gradient.head_stride), stride, problem.width,
                problem.time - begin);
    };
    zero(gradient.q, gradient.q_stride);
    zero(gradient.k, gradient.k_stride);
    zero(gradient.v, gradient.v_stride);
    return;
  }
  const int output_stride = problem.heads * problem.width;
  const Piece<kWidth, kTileThreads, kBytes> piece;
  piece.copy_rows(shared.q, problem, at, begin, problem.q, problem.q_stride, problem.head_stride);
  piece.copy_rows(shared.k, problem, at, begin, problem.k, problem.k_stride, problem.head_stride);
  piece.copy_rows(shared.v, problem, at, begin, problem.v, problem.v_stride, problem.head_stride);
  piece.copy_rows(shared.d_output, problem, at, begin, gradient.d_output, output_stride, problem.width);
  Softmax<kWidth, kBytes> softmax(problem, gradient, at, first);
  softmax.fetch(output_stride, at.length - first, problem.width);
  const PairTurner<kWidth> turner(problem.frequencies);
  wait_for_copies();
  __syncthreads();
  turner.template turn<2>({shared.q + own * kWidth, shared.k + own * kWidth}, first);
  softmax.put(shared.softmax + softmax_place(first), shared.d_output + own * kWidth, problem.scale);
  __syncthreads();
  const Tiles tiles{shared.q, shared.d_output, shared.k, shared.v, shared.softmax};
  query_gradient<kWidth, kBytes>(tiles, own * kWidth, TileSlabs<kWidth>{0, begin, problem.first_key(first), first},
                                 shared.staging[warp], problem, gradient, at, first);
  key_gradient<kWidth, kBytes>(tiles, own * kWidth, TileSlabs<kWidth>{0, begin, first, at.length - 1},
                               shared.staging[warp], problem, gradient, at, first);
}

}  // namespace

void short_window_backward(const AttentionInput& input, const Problem<bf16>& problem, const Gradient<bf16>& gradient,
                           cudaStream_t stream) {
  const bool aligned =
      problem.copy_bytes == 16 &&
      copy_bytes<bf16>({gradient.output, gradient.q, gradient.k, gradient.v},
                       {gradient.head_stride, gradient.q_stride, gradient.k_stride, gradient.v_stride}) == 16;
  const auto run = [&]<int kWidth, int kBytes>() {
    if (sees_own_tile_alone(input)) {
      const dim3 blocks(problem.batch * problem.heads, (problem.time + kSize - 1) / kSize);
      launch(tile_kernel<kWidth, kBytes>, blocks, kTileThreads, 0, stream, "attention: backward, one tile", problem,
             gradient);
    } else {
      const Parts parts(problem, kBlocksPerMultiprocessor);
      launch(backward_kernel<kWidth, kBytes>, parts.grid, kBlockThreads, sizeof(Shared<kWidth>), stream,
             "attention: backward, short window", problem, gradient, parts.tiles);
    }
  };
  dispatch_tile(problem.width, aligned, run);
}

}  // namespace engram::attention
