#include <cstdint>

#include "kernels/attention/short_window.cuh"
#include "kernels/attention/short_window_tile.cuh"
#include "kernels/attention/tiles.cuh"
#include "kernels/common/launch.cuh"

namespace engram::attention {
namespace {

constexpr int kBlockThreads = 256, kBlocksPerMultiprocessor = 2;

struct Shared {
  bf16 q[kRing], d_output[kRing], k[kRing], v[kRing];
  bf16 staging[kBlockThreads / 32][kSlab];
  alignas(16) float2 softmax[2 * kSize];  // log2_sum_exp and scale * mean of queries: of even tiles, of odd ones
};
static_assert(sizeof(Shared) == kShortWindowSharedBytes);

// Where a block of the kernel is: at tile `tile`, whose rows stand at `current` in the rings, those before it at
// `previous`.
struct Position {
  int tile, previous, current;
};

// What a query warp finds of 16 queries of each tile, for itself and for the key warps: fetched from global memory
// while others work on the tile before, and put into shared memory when d_output is there.
template <int kBytes>
struct Softmax {
  const bf16* next_output;  // of row g, channel 8 t
  const float* next_log2_sum_exp;
  std::uint32_t output[2][2][4];  // of rows g and g + 8 eight channels from 8 t and from 8 t + 32 on
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
      for (int half = 0; half < 2; ++half)
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
  // The means are the diagonal of d_output (16 x 64) times output^T; the order of the channels is the same in both.
  __device__ void put(float2* softmax, const bf16* d_output, float scale) const {
    const int g = lane_id() / 4, t = lane_id() % 4;
    Accumulator product[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 top = *reinterpret_cast<const uint4*>(d_output + place(g, 8 * t + 32 * half));
      const uint4 bottom = *reinterpret_cast<const uint4*>(d_output + place(g + 8, 8 * t + 32 * half));
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
__device__ void turn_back(Accumulator (&x)[kWidth / 8], const Frequencies& frequencies, int first) {
  const int g = lane_id() / 4, c = lane_id() % 4 * 2;
  const std::uint64_t turns = frequencies.turns[lane_id()];  // zero from `pairs` on
  const float base = radians(turns * static_cast<std::uint64_t>(first)), rate = radians(turns);
#pragma unroll
  for (int n = 0; n < kWidth / 16; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float of_pair = __shfl_sync(~0u, base, 8 * n + c + e), by_row = __shfl_sync(~0u, rate, 8 * n + c + e);
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        float &left = x[n].x[2 * row + e], &right = x[n + kWidth / 16].x[2 * row + e];
        const auto rotation = Rotation::near(of_pair + static_cast<float>(g + 8 * row) * by_row);
        const float2 turned = rotation.turn_back(left, right);
        left = turned.x;
        right = turned.y;
      }
    }
}

// The gradients of the tile's queries, 16 of a warp.
template <int kBytes>
__device__ void query_gradient(Shared& shared, bf16* staging, const Problem<bf16>& problem,
                               const Gradient<bf16>& gradient, const Problem<bf16>::Head& at, const Position& position,
                               int own) {
  const int first = position.tile * kSize + own;
  const float exponent = problem.scale * kLog2E;
  const float2* own_softmax = shared.softmax + position.tile % 2 * kSize + own + lane_id() / 4;
  const float2 softmax[2] = {own_softmax[0], own_softmax[8]};
  FragmentA<1> queries[kWidth / 16], d_outputs[kWidth / 16];
  load_left(queries, shared.q + position.current + own * kWidth);
  load_left(d_outputs, shared.d_output + position.current + own * kWidth);
  Accumulator sum[kWidth / 8] = {};
  int keys = position.previous + own * kWidth;
#pragma unroll
  for (int tile = 0; tile < kReach; ++tile, keys = next_slab(keys)) {  // from 64 steps before the first query on
    Accumulator score[2], d_weight[2];
    multiply(score, queries, shared.k + keys);
    multiply(d_weight, d_outputs, shared.v + keys);
    problem.mask<false>(score, first, first - kSize + tile * 16);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      float& x = score[e / 4].x[e % 4];
      const float2 of_query = softmax[e / 2 % 2];
      x = exp2_flushed(x * exponent - of_query.x) * (problem.scale * d_weight[e / 4].x[e % 4] - of_query.y);
    }
    add_weighted(sum, score, shared.k + keys);
  }
  turn_back(sum, problem.frequencies, first);
  store_through<true, kBytes>(staging, gradient.q + problem.strided(at, first, gradient.q_stride, gradient.head_stride),
                              static_cast<int>(gradient.q_stride), sum, problem.width, problem.time - first,
                              at.length - first, problem.frequencies.pairs);
}

// The gradients of the keys and values of the tile before, 16 of a warp; weights transposed.
template <int kBytes>
__device__ void key_gradient(Shared& shared, bf16* staging, const Problem<bf16>& problem,
                             const Gradient<bf16>& gradient, const Problem<bf16>::Head& at, const Position& position,
                             int own) {
  const int first = (position.tile - 1) * kSize + own, c = lane_id() % 4 * 2;
  const float exponent = problem.scale * kLog2E;
  FragmentA<1> keys[kWidth / 16];
  load_left(keys, shared.k + position.previous + own * kWidth);
  Accumulator sum_k[kWidth / 8] = {}, sum_v[kWidth / 8] = {};
  int queries = position.previous + own * kWidth;
#pragma unroll
  for (int tile = 0; tile < kReach; ++tile, queries = next_slab(queries)) {  // from the warp's first key on
    Accumulator weight[2], d_score[2];
    multiply(weight, keys, shared.q + queries);
    FragmentA<1> values[kWidth / 16];  // anew each time: there are registers for `keys` only
    load_left(values, shared.v + position.previous + own * kWidth);
    multiply(d_score, values, shared.d_output + queries);
    problem.mask<true>(weight, first + tile * 16, first);
    const float2* softmax = shared.softmax + (first + tile * 16) % (2 * kSize) + c;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 of_queries = *reinterpret_cast<const float4*>(softmax + half * 8);  // of two beside each other
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float &x = weight[half].x[e], &d = d_score[half].x[e];
        x = exp2_flushed(x * exponent - (e % 2 == 0 ? of_queries.x : of_queries.z));
        d = x * (problem.scale * d - (e % 2 == 0 ? of_queries.y : of_queries.w));
      }
    }
    add_weighted(sum_v, weight, shared.d_output + queries);
    add_weighted(sum_k, d_score, shared.q + queries);
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
template <int kBytes, bool kQueries>
__device__ void walk(Shared& shared, const Problem<bf16>& problem, const Gradient<bf16>& gradient,
                     const Problem<bf16>::Head& at, int begin, int end) {
  const int warp = threadIdx.x / 32, own = warp % 4 * 16;
  const int v_stride = static_cast<int>(problem.v_stride), output_stride = problem.heads * problem.width;
  const Piece<kBlockThreads, 16> saved_piece;
  const Piece<kBlockThreads, kBytes> piece;
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
    saved += kShortTile;
    v += static_cast<std::int64_t>(kSize) * v_stride;
    d_output += static_cast<std::int64_t>(kSize) * output_stride;
  };
  Position position{begin, 0, kShortTile};
  int next = 2 * kShortTile;
  copy_keys(position.previous, begin > 0);
  advance();
  copy_keys(position.current);
  copy_queries(position.current);
  Softmax<kBytes> softmax(problem, gradient, at, begin * kSize + own);
  if constexpr (kQueries) softmax.fetch(output_stride, rows - own, problem.width);

  for (;; ++position.tile) {
    const int tile = position.tile;
    wait_for_copies();
    __syncthreads();  // the tile is there, and nobody works on the one before `previous` any more
    advance();
    if (tile < end) copy_queries(next);
    if (tile + 1 < end) copy_keys(next);
    if constexpr (kQueries)
      softmax.put(shared.softmax + tile % 2 * kSize + own, shared.d_output + position.current + own * kWidth,
                  problem.scale);
    __syncthreads();
    if constexpr (!kQueries)
      if (tile > begin) key_gradient<kBytes>(shared, shared.staging[warp], problem, gradient, at, position, own);
    if (tile == end) return;
    if constexpr (kQueries) {
      query_gradient<kBytes>(shared, shared.staging[warp], problem, gradient, at, position, own);
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
template <int kBytes>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerMultiprocessor)
    backward_kernel(const __grid_constant__ Problem<bf16> problem, const __grid_constant__ Gradient<bf16> gradient,
                    int tiles) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<Shared*>(shared_memory);
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
    walk<kBytes, true>(shared, problem, gradient, at, begin, end);
  else
    walk<kBytes, false>(shared, problem, gradient, at, begin, end);
}

}  // namespace

void short_window_backward(const Problem<bf16>& problem, const Gradient<bf16>& gradient, cudaStream_t stream) {
  const bool aligned =
      problem.copy_bytes == 16 &&
      copy_bytes<bf16>({gradient.output, gradient.q, gradient.k, gradient.v},
                       {gradient.head_stride, gradient.q_stride, gradient.k_stride, gradient.v_stride}) == 16;
  const Parts parts(problem, kBlocksPerMultiprocessor);
  launch(aligned ? backward_kernel<16> : backward_kernel<4>, parts.grid, kBlockThreads, sizeof(Shared), stream,
         "attention: backward, short window", problem, gradient, parts.tiles);
}

}  // namespace engram::attention
