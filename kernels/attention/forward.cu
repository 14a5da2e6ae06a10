#include "kernels/attention/short_window.cuh"
#include "kernels/attention/tiles.cuh"

namespace engram::attention {
namespace {

template <typename T, int kWidth>
struct ForwardShared {
  T q[kTile<T, kWidth>];
  T k[2][kTile<T, kWidth>], v[2][kTile<T, kWidth>];
  KeptWeights<T> kept;
};

// One block of threads a block of queries; a warp owns 16 of them and walks with the others through the key blocks
// that they see, two of which are in shared memory: one in use, one on its way.
template <typename T, int kWidth, bool kDropout>
__global__ void __launch_bounds__(kThreads<T>)
forward_kernel(const __grid_constant__ Problem<T> problem, T* output, float* log2_sum_exp) {
  constexpr int kSize = kBlock<T>, kKeyTiles = kSize / 16;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<ForwardShared<T, kWidth>*>(shared_memory);
  const auto at = problem.head(blockIdx.x);
  const int begin = (gridDim.y - 1 - blockIdx.y) * kSize;  // the longest first
  const int g = lane_id() / 4, own = threadIdx.x / 32 * 16, t = begin + own;
  const std::int64_t output_stride = static_cast<std::int64_t>(problem.heads) * problem.width;
  T* output_rows = output + problem.contiguous(at, begin);
  if (begin >= at.length) {
    zero_rows(output_rows, output_stride, problem.width, problem.time - begin);
    if (log2_sum_exp != nullptr && threadIdx.x < kSize && begin + static_cast<int>(threadIdx.x) < problem.time)
      log2_sum_exp[problem.scalar(at, begin + threadIdx.x)] = 0.0f;
    return;
  }

  const int first = problem.first_key_block(at, begin), last = (min(begin + kSize, at.length) - 1) / kSize;
  copy_rows<kWidth>(shared.q, problem.q + problem.strided(at, begin, problem.q_stride, problem.head_stride),
                    problem.q_stride, at.length - begin, problem.width, problem.copy_bytes);
  copy_keys<kWidth>(shared.k[0], shared.v[0], problem, at, first * kSize);
  commit_copies();
  zero_padding<kWidth>(shared.q, 5, problem.width);

  Accumulator sum[kWidth / 8] = {};
  float largest[2] = {-INFINITY, -INFINITY}, weight[2] = {};
  const float exponent = problem.scale * kLog2E;
  for (int block = first; block <= last; ++block) {
    const int stage = (block - first) % 2, u = block * kSize;
    if (block < last)
      copy_keys<kWidth>(shared.k[1 - stage], shared.v[1 - stage], problem, at, u + kSize);
    commit_copies();
    wait_for_groups<1>();
    __syncthreads();
    if (block == first) turn_rows<kWidth>(shared.q, problem.frequencies, at.position + begin);
    if (block >= 0) turn_rows<kWidth>(shared.k[stage], problem.frequencies, at.position + u);
    if constexpr (kDropout) shared.kept.draw(problem, problem.scalar(at, begin), u);
    __syncthreads();

    Rows<T, kWidth> queries(shared.q + own * kStride<kWidth>);
    Accumulator score[2 * kKeyTiles];
    float top[2] = {largest[0], largest[1]};
#pragma unroll
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      const int key = u + tile * 16;
      if (!problem.any_sees(t, key)) continue;
      Accumulator(&s)[2] = reinterpret_cast<Accumulator(&)[2]>(score[2 * tile]);
      queries.multiply(s[0], s[1], shared.k[stage] + tile * 16 * kStride<kWidth>);
      const bool whole = problem.all_see(at, t, key);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int row = e / 2 % 2, column = e / 4 * 8 + lane_id() % 4 * 2 + e % 2;
        float& x = s[e / 4].x[e % 4];
        if (!whole && !problem.sees(at, t + g + 8 * row, key + column)) x = -INFINITY;
        top[row] = fmaxf(top[row], x);
      }
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      top[row] = fmaxf(top[row], __shfl_xor_sync(~0u, top[row], 1));
      top[row] = fmaxf(top[row], __shfl_xor_sync(~0u, top[row], 2));
    }
    const float base[2] = {top[0] == -INFINITY ? 0.0f : top[0], top[1] == -INFINITY ? 0.0f : top[1]};
    const float shrink[2] = {exp2f((largest[0] - base[0]) * exponent), exp2f((largest[1] - base[1]) * exponent)};
    if (block > first) {
#pragma unroll
      for (int i = 0; i < kWidth / 8; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i].x[e] *= shrink[e / 2];
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      largest[row] = top[row];
      weight[row] *= shrink[row];
    }
#pragma unroll
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      if (!problem.any_sees(t, u + tile * 16)) continue;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int row = e / 2 % 2;
        float& x = score[2 * tile + e / 4].x[e % 4];
        x = exp2f((x - base[row]) * exponent);
        weight[row] += x;
        if constexpr (kDropout) {
          const int column = e / 4 * 8 + lane_id() % 4 * 2 + e % 2;
          x = shared.kept.kept(own + g + 8 * row, tile * 16 + column) ? x * problem.dropout.scale : 0.0f;
        }
      }
      add_weighted<kWidth>(sum, score[2 * tile], score[2 * tile + 1],
                           shared.v[stage] + tile * 16 * kStride<kWidth>);
    }
    __syncthreads();
  }

#pragma unroll
  for (int row = 0; row < 2; ++row) {
    weight[row] += __shfl_xor_sync(~0u, weight[row], 1);
    weight[row] += __shfl_xor_sync(~0u, weight[row], 2);
    const int step = t + g + 8 * row;
    const bool inside = step < at.length;
    const float inverse = 1.0f / weight[row];
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i)
#pragma unroll
      for (int e = 0; e < 2; ++e) sum[i].x[2 * row + e] = inside ? sum[i].x[2 * row + e] * inverse : 0.0f;
    if (log2_sum_exp != nullptr && lane_id() % 4 == 0 && step < problem.time)
      log2_sum_exp[problem.scalar(at, step)] = inside ? largest[row] * exponent + log2f(weight[row]) : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kWidth / 8; ++i)
    store(output_rows + own * output_stride + 8 * i, static_cast<int>(output_stride), sum[i], problem.time - t,
          problem.width - 8 * i);
}

}  // namespace
}  // namespace engram::attention

namespace engram {

void attention_forward(const AttentionInput& input, const AttentionOutput& output, cudaStream_t stream) {
  using namespace attention;
  check_input(input);
  if (is_short_window(input)) return short_window_forward(input, output, stream);
  dispatch(input.dtype, input.shape.width, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int kWidth = decltype(width)::value;
    const dim3 grid(input.shape.batch * input.shape.heads, (input.shape.time + kBlock<T> - 1) / kBlock<T>);
    const Problem<T> problem = make_problem<T>(input);
    auto* o = static_cast<T*>(output.output_BTHW);
    constexpr std::size_t kBytes = sizeof(ForwardShared<T, kWidth>);
    if (input.dropout.drops())
      launch<forward_kernel<T, kWidth, true>>(grid, kThreads<T>, kBytes, stream, "attention: forward", problem, o,
                                              output.log2_sum_exp_BHT);
    else
      launch<forward_kernel<T, kWidth, false>>(grid, kThreads<T>, kBytes, stream, "attention: forward", problem, o,
                                               output.log2_sum_exp_BHT);
  });
}

}  // namespace engram
