#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/short_window.cuh"
#include "kernels/attention/tiles.cuh"

namespace engram::attention {
namespace {

// Blocks of queries that share the keys in shared memory, each with a team of threads.
template <typename T, int kWidth>
constexpr int kTeams = sizeof(T) == 2 && kWidth == 64 ? 2 : 1;

template <typename T, int kWidth>
struct ForwardShared {
  T q[kTeams<T, kWidth>][kTile<T, kWidth>];
  T k[2][kTile<T, kWidth>], v[2][kTile<T, kWidth>];
  KeptWeights<T> kept[2][kTeams<T, kWidth>];
};

// Draws which weights dropout keeps, for the forward and the backward pass; a block of threads draws for a block of
// queries and all keys that they see.
template <typename T>
__global__ void __launch_bounds__(256) draw_kernel(const __grid_constant__ Problem<T> problem, const Saved<T> saved) {
  using Kept = KeptWeights<T>;
  constexpr int kWords = sizeof(Kept) / sizeof(std::uint32_t);
  const auto at = problem.head(blockIdx.x);
  const int block = gridDim.y - 1 - blockIdx.y, begin = block * kBlock<T>;  // the longest first
  if (begin >= at.length) return;
  const int first = problem.first_key_block(begin);
  Kept* kept = saved.kept + Kept::index(problem.time, blockIdx.x, begin, 0);
  const std::int64_t row_groups = dropout_row(problem.time) / kDropoutGroup;
  for (int i = first * kWords + threadIdx.x; i < (block + 1) * kWords; i += blockDim.x) {
    const int query = i % kWords / Kept::kWords, part = i % Kept::kWords;
    const int t = begin + query, u = i / kWords * kBlock<T> + part * 32;
    std::uint32_t bits = 0;
    if (problem.any_sees(t, 1, u, 32)) {
      const std::int64_t group = problem.scalar(at, t) * row_groups + u / kDropoutGroup;
#pragma unroll
      for (int g = 0; g < 4; ++g) bits |= problem.dropout.kept(group + g) << kDropoutGroup * g;
    }
    kept[i / kWords].word[query][part] = bits;
  }
}

template <typename T, int kWidth>
struct TurnShared {
  T q[kTile<T, kWidth>], k[kTile<T, kWidth>];
};

// Turns and saves queries and keys, a block of 64 or 32 steps each, so that nobody turns them twice.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads<T>)
    turn_kernel(const __grid_constant__ Problem<T> problem, const Saved<T> saved) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<TurnShared<T, kWidth>*>(shared_memory);
  const auto at = problem.head(blockIdx.x);
  const int begin = blockIdx.y * kBlock<T>;
  if (begin >= at.length) return;
  copy_block<kWidth>(shared.q, problem.q, problem.q_stride, problem, at, begin);
  copy_block<kWidth>(shared.k, problem.k, problem.k_stride, problem, at, begin);
  zero_padding<kWidth>(shared.q, 2, problem.width);
  const Turner turner(problem.frequencies);
  wait_for_copies();
  __syncthreads();
  turner.turn<kWidth, T, 2>({shared.q, shared.k}, begin);
  __syncthreads();
  save_rows<kWidth>(saved.q, shared.q, problem, at, begin);
  save_rows<kWidth>(saved.k, shared.k, problem, at, begin);
}

// A warp owns 16 queries and walks with the others through the key blocks that they see, two of which are in shared
// memory: one in use, one on its way.
template <typename T, int kWidth, bool kDropout>
__global__ void __launch_bounds__(kThreads<T>* kTeams<T, kWidth>, kTeams<T, kWidth>)
    forward_kernel(const __grid_constant__ Problem<T> problem, T* output, const Saved<T> saved) {
  constexpr int kSize = kBlock<T>, kKeyTiles = kSize / 16, kQueryBlocks = kTeams<T, kWidth>;
  constexpr int kQueries = kSize * kQueryBlocks, kRow = kStride<kWidth>;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<ForwardShared<T, kWidth>*>(shared_memory);
  const auto at = problem.head(blockIdx.x);
  const int begin = (gridDim.y - 1 - blockIdx.y) * kQueries;  // the longest first
  const int g = lane_id() / 4, c = lane_id() % 4 * 2, own = threadIdx.x / 32 * 16, t = begin + own;
  const int team = threadIdx.x / kThreads<T>, team_begin = begin + team * kSize;
  const std::int64_t output_stride = static_cast<std::int64_t>(problem.heads) * problem.width;
  if (begin >= at.length) {
    zero_rows(output + problem.contiguous(at, team_begin), output_stride, problem.width, problem.time - team_begin);
    return;
  }

  const int first = problem.first_key_block(begin), last = (min(begin + kQueries, at.length) - 1) / kSize;
  const auto copy_keys = [&](int stage, int u) {
    if (team == 0) copy_saved<kWidth>(shared.k[stage], saved.k, problem, at, u);
    if (team == kQueryBlocks - 1) copy_block<kWidth>(shared.v[stage], problem.v, problem.v_stride, problem, at, u);
    if constexpr (kDropout) {
      if (team_begin < at.length && problem.any_sees(team_begin, kSize, u, kSize))
        shared.kept[stage][team].copy(saved.kept + KeptWeights<T>::index(problem.time, blockIdx.x, team_begin, u));
    }
  };
  copy_saved<kWidth>(shared.q[team], saved.q, problem, at, team_begin);
  copy_keys(0, first * kSize);
  zero_padding<kWidth>(shared.v[0], 2, problem.width);

  Accumulator sum[kWidth / 8] = {};
  float largest[2] = {-INFINITY, -INFINITY}, weight[2] = {};
  const float exponent = problem.scale * kLog2E;
  // kEdge: some queries do not see some keys of the block. Without branches the tiles' instructions interleave.
  const auto visit = [&]<bool kEdge>(int stage, int u) {
    Rows<T, kWidth> queries(shared.q[0] + own * kRow);
    Accumulator score[kKeyTiles][2];
    float top[2] = {largest[0], largest[1]};
#pragma unroll
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      const int key = u + tile * 16;
      if (kEdge && !problem.any_sees(t, 16, key, 16)) continue;
      queries.multiply(score[tile], shared.k[stage] + tile * 16 * kRow);
      if (kEdge) problem.template mask<false>(score[tile], t, key);
#pragma unroll
      for (int e = 0; e < 8; ++e) top[e / 2 % 2] = fmaxf(top[e / 2 % 2], score[tile][e / 4].x[e % 4]);
    }
    float base[2], shrink[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      top[row] = fmaxf(top[row], __shfl_xor_sync(~0u, top[row], 1));
      top[row] = fmaxf(top[row], __shfl_xor_sync(~0u, top[row], 2));
      // Nothing seen so far: any finite base gives zero weights.
      base[row] = kEdge && top[row] == -INFINITY ? 0.0f : top[row] * exponent;
      shrink[row] = fast_exp2(largest[row] * exponent - base[row]);
      largest[row] = top[row];
      weight[row] *= shrink[row];
    }
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[i].x[e] *= shrink[e / 2];
#pragma unroll
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      if (kEdge && !problem.any_sees(t, 16, u + tile * 16, 16)) continue;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        [[maybe_unused]] std::uint32_t bits = 0;
        if constexpr (kDropout)
          bits = shared.kept[stage][team].word[own % kSize + g + 8 * row][tile / 2] >> (tile % 2 * 16 + c);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& x = score[tile][e / 2].x[2 * row + e % 2];
          x = fast_exp2(x * exponent - base[row]);
          weight[row] += x;
          if constexpr (kDropout) x = (bits >> (e / 2 * 8 + e % 2) & 1) != 0 ? x : 0.0f;
        }
      }
      add_weighted<kWidth>(sum, score[tile], shared.v[stage] + tile * 16 * kRow);
    }
  };
  for (int block = first; block <= last; ++block) {
    const int stage = (block - first) % 2, u = block * kSize;
    wait_for_copies();
    __syncthreads();
    if (block < last) copy_keys(1 - stage, u + kSize);
    if (sizeof(T) == 2 && problem.all_see(t, 16, u, kSize))
      visit.template operator()<false>(stage, u);
    else if (problem.any_sees(t, 16, u, kSize))
      visit.template operator()<true>(stage, u);
  }

#pragma unroll
  for (int row = 0; row < 2; ++row) {
    weight[row] += __shfl_xor_sync(~0u, weight[row], 1);
    weight[row] += __shfl_xor_sync(~0u, weight[row], 2);
    const int step = t + g + 8 * row;
    float inverse = weight[row] > 0.0f ? 1.0f / weight[row] : 0.0f;  // after the length, maybe no keys
    if constexpr (kDropout) inverse *= problem.dropout.scale;
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i)
#pragma unroll
      for (int e = 0; e < 2; ++e) sum[i].x[2 * row + e] *= inverse;
    if (lane_id() % 4 == 0 && step < at.length)
      saved.log2_sum_exp[problem.scalar(at, step)] = largest[row] * exponent + log2f(weight[row]);
  }
  store_rows<kWidth>(output + problem.contiguous(at, t), output_stride, sum, problem.width, at.length - t,
                     problem.time - t);
}

}  // namespace
}  // namespace engram::attention

namespace engram {

std::size_t attention_saved_bytes(const AttentionShape& shape, Dtype dtype, bool dropout) {
  attention::check_shape(shape);
  return dispatch_dtype(dtype, [&](auto element) {
    using Saved = attention::Saved<decltype(element)>;
    return 2 * Saved::vector_bytes(shape) + Saved::scalar_bytes(shape) + (dropout ? Saved::kept_bytes(shape) : 0);
  });
}

void attention_forward(const AttentionInput& input, void* output_BTHW, void* saved, cudaStream_t stream) {
  using namespace attention;
  check_input(input);
  if (is_short_window(input)) return short_window_forward(input, output_BTHW, saved, stream);
  dispatch_width(input.dtype, input.shape.width, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int kWidth = decltype(width)::value, kQueries = kBlock<T> * kTeams<T, kWidth>;
    const int heads = input.shape.batch * input.shape.heads, time = input.shape.time;
    const Problem<T> problem = make_problem<T>(input);
    const Saved<T> kept = Saved<T>::of(saved, input.shape);
    const dim3 blocks(heads, (time + kBlock<T> - 1) / kBlock<T>);
    if (input.dropout.drops())
      launch(draw_kernel<T>, blocks, 256, 0, stream, "attention: drawing dropout", problem, kept);
    launch(turn_kernel<T, kWidth>, blocks, kThreads<T>, sizeof(TurnShared<T, kWidth>), stream, "attention: turning",
           problem, kept);
    const auto run = [&]<bool kDropout>() {
      launch(forward_kernel<T, kWidth, kDropout>, dim3(heads, (time + kQueries - 1) / kQueries),
             kThreads<T> * kTeams<T, kWidth>, sizeof(ForwardShared<T, kWidth>), stream, "attention: forward", problem,
             static_cast<T*>(output_BTHW), kept);
    };
    input.dropout.drops() ? run.template operator()<true>() : run.template operator()<false>();
  });
}

}  // namespace engram
