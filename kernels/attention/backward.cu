#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/short_window.cuh"
#include "kernels/attention/tiles.cuh"

namespace engram::attention {
namespace {

// Blocks of the other operand in shared memory: one in use and, where there is room, one on its way.
template <int kWidth>
constexpr int kStages = kWidth == 64 ? 2 : 1;

template <typename T, int kWidth>
struct QueryShared {
  T q[kTile<T, kWidth>], d_output[kTile<T, kWidth>];
  T k[kStages<kWidth>][kTile<T, kWidth>], v[kStages<kWidth>][kTile<T, kWidth>];
  KeptWeights<T> kept[kStages<kWidth>];
};

template <typename T, int kWidth>
struct KeyShared {
  T k[kTile<T, kWidth>], v[kTile<T, kWidth>];
  T q[kStages<kWidth>][kTile<T, kWidth>], d_output[kStages<kWidth>][kTile<T, kWidth>];
  float log2_sum_exp[kStages<kWidth>][kBlock<T>], mean[kStages<kWidth>][kBlock<T>];
  KeptWeights<T> kept[kStages<kWidth>];
};

// d_output . output of the warp's 16 rows of `width` elements: mean[0] of row g, mean[1] of row g + 8.
template <int kWidth, typename T>
__device__ void row_means(float (&mean)[2], const T* d_output, const T* output, std::int64_t stride, int width,
                          int valid) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float sum = 0;
    const std::int64_t from = (g + 8 * row) * stride + 2 * t;
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i)
      if (g + 8 * row < valid && 2 * t + 8 * i < width) {
        const float2 x = load_pair(d_output + from + 8 * i), y = load_pair(output + from + 8 * i);
        sum += x.x * y.x + x.y * y.y;
      }
    sum += __shfl_xor_sync(~0u, sum, 1);
    mean[row] = sum + __shfl_xor_sync(~0u, sum, 2);
  }
}

// The gradient of a block of queries; writes `mean` for the kernel below.
template <typename T, int kWidth, bool kDropout>
__global__ void __launch_bounds__(kThreads<T>, sizeof(T) == 2 && kWidth == 64 ? 4 : 1)
    query_kernel(const __grid_constant__ Problem<T> problem, const __grid_constant__ Gradient<T> gradient) {
  constexpr int kSize = kBlock<T>, kKeyTiles = kSize / 16;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<QueryShared<T, kWidth>*>(shared_memory);
  const auto at = problem.head(blockIdx.x);
  const int begin = (gridDim.y - 1 - blockIdx.y) * kSize;  // the longest first
  const int warp = threadIdx.x / 32, g = lane_id() / 4, own = warp * 16, t = begin + own;
  T* d_q = gradient.q + problem.strided(at, begin, gradient.q_stride, gradient.head_stride);
  if (begin >= at.length) {
    zero_rows(d_q, gradient.q_stride, problem.width, problem.time - begin);
    return;
  }

  const std::int64_t output_stride = static_cast<std::int64_t>(problem.heads) * problem.width;
  const int first = problem.first_key_block(begin), last = (min(begin + kSize, at.length) - 1) / kSize;
  const auto copy_keys = [&](int stage, int u) {
    copy_saved<kWidth>(shared.k[stage], gradient.saved.k, problem, at, u);
    copy_block<kWidth>(shared.v[stage], problem.v, problem.v_stride, problem, at, u);
    if constexpr (kDropout)
      shared.kept[stage].copy(gradient.saved.kept + KeptWeights<T>::index(problem.time, blockIdx.x, begin, u));
  };
  copy_saved<kWidth>(shared.q, gradient.saved.q, problem, at, begin);
  copy_rows<kWidth>(shared.d_output, gradient.d_output + problem.contiguous(at, begin), output_stride,
                    at.length - begin, problem.width, problem.copy_bytes);
  copy_keys(0, first * kSize);
  zero_padding<kWidth>(shared.d_output, 1, problem.width);
  zero_padding<kWidth>(shared.v[0], kStages<kWidth>, problem.width);
  float log2_sum_exp[2], mean[2];
  row_means<kWidth>(mean, gradient.d_output + problem.contiguous(at, t), gradient.output + problem.contiguous(at, t),
                    output_stride, problem.width, at.length - t);
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int step = t + g + 8 * row;
    log2_sum_exp[row] = step < at.length ? gradient.saved.log2_sum_exp[problem.scalar(at, step)] : 0.0f;
    if (lane_id() % 4 == 0 && step < at.length) gradient.mean[problem.scalar(at, step)] = mean[row];
  }

  Accumulator sum[kWidth / 8] = {};
  const float exponent = problem.scale * kLog2E;
  // kEdge: some queries do not see some keys of the block. Without branches the tiles' instructions interleave.
  const auto visit = [&]<bool kEdge>(int stage, int u) {
    Rows<T, kWidth> queries(shared.q + own * kStride<kWidth>), d_outputs(shared.d_output + own * kStride<kWidth>);
#pragma unroll
    for (int tile = 0; tile < kKeyTiles; ++tile) {
      const int key = u + tile * 16;
      if (kEdge && !problem.any_sees(t, 16, key, 16)) continue;
      Accumulator score[2], d_weight[2];
      queries.multiply(score, shared.k[stage] + tile * 16 * kStride<kWidth>);
      d_outputs.multiply(d_weight, shared.v[stage] + tile * 16 * kStride<kWidth>);
      if (kEdge) problem.template mask<false>(score, t, key);
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        [[maybe_unused]] std::uint32_t bits = 0;
        if constexpr (kDropout)
          bits = shared.kept[stage].word[own + g + 8 * row][tile / 2] >> (tile % 2 * 16 + lane_id() % 4 * 2);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& x = score[e / 2].x[2 * row + e % 2];
          float d = d_weight[e / 2].x[2 * row + e % 2];
          if constexpr (kDropout) d = (bits >> (e / 2 * 8 + e % 2) & 1) != 0 ? d * problem.dropout.scale : 0.0f;
          x = fast_exp2(x * exponent - log2_sum_exp[row]) * (d - mean[row]);
        }
      }
      add_weighted<kWidth>(sum, score, shared.k[stage] + tile * 16 * kStride<kWidth>);
    }
  };
  for (int block = first; block <= last; ++block) {
    const int stage = (block - first) % kStages<kWidth>, u = block * kSize;
    wait_for_copies();
    __syncthreads();
    if (kStages<kWidth> == 2 && block < last) copy_keys(1 - stage, u + kSize);
    if (sizeof(T) == 2 && problem.all_see(t, 16, u, kSize))
      visit.template operator()<false>(stage, u);
    else
      visit.template operator()<true>(stage, u);
    if (kStages<kWidth> == 1 && block < last) {
      __syncthreads();
      copy_keys(0, u + kSize);
    }
  }
  __syncthreads();
  // The query's block of shared memory, and the next, become the warps' staging.
  float* staging = reinterpret_cast<float*>(shared_memory) + warp * 16 * kStride<kWidth>;
  if (t < problem.time)
    store_turned_back<kWidth>(d_q + own * gradient.q_stride, gradient.q_stride, sum, staging, problem.frequencies, t,
                              problem.scale, problem.width, at.length - t, problem.time - t);
}

template <int kWidth, bool kDropout, typename T>
__device__ void copy_queries(KeyShared<T, kWidth>& shared, int stage, const Problem<T>& problem,
                             const Gradient<T>& gradient, const typename Problem<T>::Head& at, int t, int u) {
  copy_saved<kWidth>(shared.q[stage], gradient.saved.q, problem, at, t);
  copy_rows<kWidth>(shared.d_output[stage], gradient.d_output + problem.contiguous(at, t),
                    static_cast<std::int64_t>(problem.heads) * problem.width, at.length - t, problem.width,
                    problem.copy_bytes);
  if constexpr (kDropout)
    shared.kept[stage].copy(gradient.saved.kept + KeptWeights<T>::index(problem.time, blockIdx.x, t, u));
  const int i = threadIdx.x % kBlock<T>;
  const std::int64_t from = problem.scalar(at, t + i);
  if (threadIdx.x < kBlock<T>)
    copy_async<4>(&shared.log2_sum_exp[stage][i], gradient.saved.log2_sum_exp + from, t + i < at.length);
  else
    copy_async<4>(&shared.mean[stage][i], gradient.mean + from, t + i < at.length);
}

// The gradients of a block of keys and values; weights are held transposed, keys x queries.
template <typename T, int kWidth, bool kDropout>
__global__ void __launch_bounds__(kThreads<T>, sizeof(T) == 2 && kWidth == 64 ? 3 : 1)
    key_kernel(const __grid_constant__ Problem<T> problem, const __grid_constant__ Gradient<T> gradient) {
  constexpr int kSize = kBlock<T>, kQueryTiles = kSize / 16;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<KeyShared<T, kWidth>*>(shared_memory);
  const auto at = problem.head(blockIdx.x);
  const int begin = blockIdx.y * kSize;  // with full causal attention the longest first
  const int warp = threadIdx.x / 32, g = lane_id() / 4, own = warp * 16, u = begin + own;
  T* d_k = gradient.k + problem.strided(at, begin, gradient.k_stride, gradient.head_stride);
  T* d_v = gradient.v + problem.strided(at, begin, gradient.v_stride, gradient.head_stride);
  if (begin >= at.length) {
    zero_rows(d_k, gradient.k_stride, problem.width, problem.time - begin);
    zero_rows(d_v, gradient.v_stride, problem.width, problem.time - begin);
    return;
  }

  const int first = blockIdx.y, last = problem.last_query_block(at, begin + kSize - 1);
  copy_saved<kWidth>(shared.k, gradient.saved.k, problem, at, begin);
  copy_block<kWidth>(shared.v, problem.v, problem.v_stride, problem, at, begin);
  copy_queries<kWidth, kDropout>(shared, 0, problem, gradient, at, begin, begin);
  zero_padding<kWidth>(shared.v, 1, problem.width);
  zero_padding<kWidth>(shared.d_output[0], kStages<kWidth>, problem.width);

  Accumulator sum_k[kWidth / 8] = {}, sum_v[kWidth / 8] = {};
  const float exponent = problem.scale * kLog2E;
  const auto visit = [&]<bool kEdge>(int stage, int t) {
    Rows<T, kWidth> keys(shared.k + own * kStride<kWidth>), values(shared.v + own * kStride<kWidth>);
#pragma unroll
    for (int tile = 0; tile < kQueryTiles; ++tile) {
      const int query = t + tile * 16;
      if (kEdge && !problem.any_sees(query, 16, u, 16)) continue;
      Accumulator weight[2], d_score[2];
      keys.multiply(weight, shared.q[stage] + tile * 16 * kStride<kWidth>);
      values.multiply(d_score, shared.d_output[stage] + tile * 16 * kStride<kWidth>);
      if (kEdge) problem.template mask<true>(weight, query, u);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int column = tile * 16 + n / 2 * 8 + lane_id() % 4 * 2 + n % 2;
        const float log2_sum_exp = shared.log2_sum_exp[stage][column], mean = shared.mean[stage][column];
        [[maybe_unused]] std::uint32_t bits = 0;
        if constexpr (kDropout) bits = shared.kept[stage].word[column][own / 32] >> (own % 32 + g);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          float& x = weight[n / 2].x[2 * row + n % 2];
          float& d = d_score[n / 2].x[2 * row + n % 2];
          x = fast_exp2(x * exponent - log2_sum_exp);
          float factor = 1.0f;
          if constexpr (kDropout) factor = (bits >> 8 * row & 1) != 0 ? problem.dropout.scale : 0.0f;
          d = x * (d * factor - mean);
          x *= factor;
        }
      }
      add_weighted<kWidth>(sum_v, weight, shared.d_output[stage] + tile * 16 * kStride<kWidth>);
      add_weighted<kWidth>(sum_k, d_score, shared.q[stage] + tile * 16 * kStride<kWidth>);
    }
  };
  for (int block = first; block <= last; ++block) {
    const int stage = (block - first) % kStages<kWidth>, t = block * kSize;
    wait_for_copies();
    __syncthreads();
    if (kStages<kWidth> == 2 && block < last)
      copy_queries<kWidth, kDropout>(shared, 1 - stage, problem, gradient, at, t + kSize, begin);
    if (sizeof(T) == 2 && problem.all_see(t, kSize, u, 16))
      visit.template operator()<false>(stage, t);
    else
      visit.template operator()<true>(stage, t);
    if (kStages<kWidth> == 1 && block < last) {
      __syncthreads();
      copy_queries<kWidth, kDropout>(shared, 0, problem, gradient, at, t + kSize, begin);
    }
  }
  __syncthreads();
  if (u >= problem.time) return;
  store_rows<kWidth>(d_v + own * gradient.v_stride, gradient.v_stride, sum_v, problem.width, at.length - u,
                     problem.time - u);
  float* staging = reinterpret_cast<float*>(shared_memory) + warp * 16 * kStride<kWidth>;
  store_turned_back<kWidth>(d_k + own * gradient.k_stride, gradient.k_stride, sum_k, staging, problem.frequencies, u,
                            problem.scale, problem.width, at.length - u, problem.time - u);
}

}  // namespace
}  // namespace engram::attention

namespace engram {

std::size_t attention_backward_scratch_bytes(const AttentionShape& shape) {
  attention::check_shape(shape);
  return sizeof(float) * shape.batch * shape.heads * shape.time;
}

void attention_backward(const AttentionInput& input, const AttentionOutputGradient& output_gradient,
                        const AttentionInputGradient& input_gradient, void* scratch, cudaStream_t stream) {
  using namespace attention;
  check_input(input);
  check_vectors(input.rotary_width, input.shape.width, input.scale,
                {input_gradient.head_stride, input_gradient.q.row_stride, input_gradient.k.row_stride,
                 input_gradient.v.row_stride});
  dispatch_width(input.dtype, input.shape.width, [&](auto element, auto width) {
    using T = decltype(element);
    constexpr int kWidth = decltype(width)::value;
    const dim3 grid(input.shape.batch * input.shape.heads, (input.shape.time + kBlock<T> - 1) / kBlock<T>);
    Problem<T> problem = make_problem<T>(input);
    problem.copy_bytes = std::min(problem.copy_bytes, copy_bytes<T>({output_gradient.d_output_BTHW}, {problem.width}));
    const Gradient<T> gradient{Saved<T>::of(const_cast<void*>(output_gradient.saved), input.shape),
                               static_cast<const T*>(output_gradient.output_BTHW),
                               static_cast<const T*>(output_gradient.d_output_BTHW),
                               static_cast<float*>(scratch),
                               input_gradient.head_stride,
                               input_gradient.q.row_stride,
                               input_gradient.k.row_stride,
                               input_gradient.v.row_stride,
                               static_cast<T*>(input_gradient.q.data),
                               static_cast<T*>(input_gradient.k.data),
                               static_cast<T*>(input_gradient.v.data)};
    if constexpr (sizeof(T) == 2)
      if (is_short_window(input)) return short_window_backward(input, problem, gradient, stream);
    const auto run = [&]<bool kDropout>() {
      launch(query_kernel<T, kWidth, kDropout>, grid, kThreads<T>, sizeof(QueryShared<T, kWidth>), stream,
             "attention: gradient of queries", problem, gradient);
      launch(key_kernel<T, kWidth, kDropout>, grid, kThreads<T>, sizeof(KeyShared<T, kWidth>), stream,
             "attention: gradient of keys and values", problem, gradient);
    };
    input.dropout.drops() ? run.template operator()<true>() : run.template operator()<false>();
  });
}

}  // namespace engram
