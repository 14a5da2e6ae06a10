#include "kernels/attention/short_window.cuh"

namespace engram::attention {
namespace {

constexpr int kSize = kBlock<bf16>, kWidth = 64, kRow = kStride<kWidth>, kReach = 5;  // 16-step tiles that a warp needs
using Tile = bf16[kTile<bf16, kWidth>];

struct ForwardShared {
  Tile q, k[2], v[2];  // k, v: the block before, then the queries' own
};

__global__ void __launch_bounds__(128, 4)
    forward_kernel(const __grid_constant__ Problem<bf16> problem, bf16* output, const Saved<bf16> saved) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<ForwardShared*>(shared_memory);
  const auto at = problem.head(blockIdx.x);
  const int begin = blockIdx.y * kSize, own = threadIdx.x / 32 * 16, t = begin + own, g = lane_id() / 4;
  const std::int64_t output_stride = static_cast<std::int64_t>(problem.heads) * problem.width;
  bf16* output_rows = output + problem.contiguous(at, begin);
  if (begin >= at.length) {
    zero_rows(output_rows, output_stride, problem.width, problem.time - begin);
    return;
  }

  const auto copy_keys = [&](Tile(&tiles)[2], const bf16* from, std::int64_t stride) {
    copy_block<kWidth>(tiles[0], from, stride, problem, at, begin - kSize, begin > 0);
    copy_block<kWidth>(tiles[1], from, stride, problem, at, begin);
  };
  copy_rows<kWidth>(shared.q, problem.q + problem.strided(at, begin, problem.q_stride, problem.head_stride),
                    problem.q_stride, at.length - begin, problem.width, problem.copy_bytes);
  copy_keys(shared.k, problem.k, problem.k_stride);
  commit_copies();
  copy_keys(shared.v, problem.v, problem.v_stride);
  commit_copies();
  zero_padding<kWidth>(shared.q, 5, problem.width);
  const Turner turner(problem.frequencies);
  wait_for_groups<1>();
  __syncthreads();
  turner.turn<kWidth, bf16, 2>({shared.q, shared.k[1]}, begin);
  if (begin > 0) turner.turn<kWidth, bf16, 1>({shared.k[0]}, begin - kSize);
  wait_for_copies();
  __syncthreads();
  save_rows<kWidth>(saved.q, shared.q, problem, at, begin);
  save_rows<kWidth>(saved.k, shared.k[1], problem, at, begin);

  // The warp's keys begin 64 steps before its first query.
  Accumulator score[kReach][2];
  float largest[2] = {-INFINITY, -INFINITY}, weight[2] = {};
  {
    Rows<bf16, kWidth> queries(shared.q + own * kRow);
#pragma unroll
    for (int tile = 0; tile < kReach; ++tile) queries.multiply(score[tile], shared.k[0] + (own + tile * 16) * kRow);
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
    add_weighted<kWidth>(sum, score[tile], shared.v[0] + (own + tile * 16) * kRow);
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
  store_rows<kWidth>(output_rows + own * output_stride, output_stride, sum, problem.width, at.length - t,
                     problem.time - t);
}

struct BackwardShared {
  Tile q[2], d_output[2];  // the block, then the one after it
  Tile k[2], v[2];         // the block before, then the block
  float log2_sum_exp[2 * kSize], mean[2 * kSize];
};

// The gradients of a block of queries (first four warps) and of the same block of keys and values (last four).
__global__ void __launch_bounds__(256, 2)
    backward_kernel(const __grid_constant__ Problem<bf16> problem, const __grid_constant__ Gradient<bf16> gradient) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto& shared = *reinterpret_cast<BackwardShared*>(shared_memory);
  const auto at = problem.head(blockIdx.x);
  const int begin = blockIdx.y * kSize, warp = threadIdx.x / 32, own = warp % 4 * 16, first = begin + own;
  const int g = lane_id() / 4, c = lane_id() % 4 * 2;
  const bool for_queries = warp < 4;
  const std::int64_t output_stride = static_cast<std::int64_t>(problem.heads) * problem.width;
  bf16* d_q = gradient.q + problem.strided(at, begin, gradient.q_stride, gradient.head_stride);
  bf16* d_k = gradient.k + problem.strided(at, begin, gradient.k_stride, gradient.head_stride);
  bf16* d_v = gradient.v + problem.strided(at, begin, gradient.v_stride, gradient.head_stride);
  if (begin >= at.length) {
    if (for_queries) {
      zero_rows(d_q, gradient.q_stride, problem.width, problem.time - begin);
    } else {
      zero_rows(d_k, gradient.k_stride, problem.width, problem.time - begin);
      zero_rows(d_v, gradient.v_stride, problem.width, problem.time - begin);
    }
    return;
  }

  for (int block = 0; block < 2; ++block) {
    const int t = begin + block * kSize, u = t - kSize;
    if (for_queries) {
      copy_saved<kWidth>(shared.q[block], gradient.saved.q, problem, at, t);
      copy_rows<kWidth>(shared.d_output[block], gradient.d_output + problem.contiguous(at, t), output_stride,
                        at.length - t, problem.width, problem.copy_bytes);
    } else {
      copy_saved<kWidth>(shared.k[block], gradient.saved.k, problem, at, u, u >= 0);
      copy_block<kWidth>(shared.v[block], problem.v, problem.v_stride, problem, at, u, u >= 0);
    }
  }
  zero_padding<kWidth>(shared.d_output[0], 2, problem.width);
  zero_padding<kWidth>(shared.v[0], 2, problem.width);
  // Each warp finds the means of 16 of the 128 queries; what it reads from global memory it asks for now.
  std::uint32_t output[2][kWidth / 8];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int i = warp * 16 + g + 8 * row, step = begin + i;
    const bf16* from = gradient.output + problem.contiguous(at, step) + c;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n)
      output[row][n] =
          step < at.length && c + 8 * n < problem.width ? *reinterpret_cast<const std::uint32_t*>(from + 8 * n) : 0u;
    if (c == 0)
      shared.log2_sum_exp[i] = step < at.length ? gradient.saved.log2_sum_exp[problem.scalar(at, step)] : 0.0f;
  }
  wait_for_copies();
  __syncthreads();
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const int i = warp * 16 + g + 8 * row;
    float mean = 0;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      const float2 d = load_pair(shared.d_output[0] + i * kRow + c + 8 * n);
      mean += d.x * unpack_low(output[row][n]) + d.y * unpack_high(output[row][n]);
    }
    mean += __shfl_xor_sync(~0u, mean, 1);
    mean += __shfl_xor_sync(~0u, mean, 2);
    if (c == 0) shared.mean[i] = mean;
  }
  __syncthreads();

  const float exponent = problem.scale * kLog2E;
  Accumulator sum[kWidth / 8] = {};  // of queries or keys
  if (for_queries) {
    const float log2_sum_exp[2] = {shared.log2_sum_exp[own + g], shared.log2_sum_exp[own + g + 8]};
    const float mean[2] = {shared.mean[own + g], shared.mean[own + g + 8]};
    Rows<bf16, kWidth> queries(shared.q[0] + own * kRow), d_outputs(shared.d_output[0] + own * kRow);
#pragma unroll
    for (int tile = 0; tile < kReach; ++tile) {  // keys from 64 steps before the warp's first query on
      Accumulator score[2], d_weight[2];
      queries.multiply(score, shared.k[0] + (own + tile * 16) * kRow);
      d_outputs.multiply(d_weight, shared.v[0] + (own + tile * 16) * kRow);
      problem.mask<false>(score, first, first - kSize + tile * 16);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        float& x = score[e / 4].x[e % 4];
        x = exp2_flushed(x * exponent - log2_sum_exp[e / 2 % 2]) * (d_weight[e / 4].x[e % 4] - mean[e / 2 % 2]);
      }
      add_weighted<kWidth>(sum, score, shared.k[0] + (own + tile * 16) * kRow);
    }
  } else {
    Accumulator sum_v[kWidth / 8] = {};
    Rows<bf16, kWidth> keys(shared.k[1] + own * kRow), values(shared.v[1] + own * kRow);
#pragma unroll
    for (int tile = 0; tile < kReach; ++tile) {  // queries from the warp's first key on; weights transposed
      const int row = own + tile * 16;
      Accumulator weight[2], d_score[2];
      keys.multiply(weight, shared.q[0] + row * kRow);
      values.multiply(d_score, shared.d_output[0] + row * kRow);
      problem.mask<true>(weight, first + tile * 16, first);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int query = row + e / 4 * 8 + c + e % 2;
        float& x = weight[e / 4].x[e % 4];
        x = exp2_flushed(x * exponent - shared.log2_sum_exp[query]);
        d_score[e / 4].x[e % 4] = x * (d_score[e / 4].x[e % 4] - shared.mean[query]);
      }
      add_weighted<kWidth>(sum_v, weight, shared.d_output[0] + row * kRow);
      add_weighted<kWidth>(sum, d_score, shared.q[0] + row * kRow);
    }
    store_rows<kWidth>(d_v + own * gradient.v_stride, gradient.v_stride, sum_v, problem.width, at.length - first,
                       problem.time - first);
  }
  __syncthreads();
  // The tiles become the warps' staging.
  float* staging = reinterpret_cast<float*>(shared_memory) + warp * 16 * kRow;
  if (first >= problem.time) return;
  store_turned_back<kWidth>(for_queries ? d_q + own * gradient.q_stride : d_k + own * gradient.k_stride,
                            for_queries ? gradient.q_stride : gradient.k_stride, sum, staging, problem.frequencies,
                            first, problem.scale, problem.width, at.length - first, problem.time - first);
}

dim3 grid(const Problem<bf16>& problem) {
  return dim3(problem.batch * problem.heads, (problem.time + kSize - 1) / kSize);
}

}  // namespace

void short_window_forward(const AttentionInput& input, void* output, void* saved, cudaStream_t stream) {
  const Problem<bf16> problem = make_problem<bf16>(input);
  launch(forward_kernel, grid(problem), 128, sizeof(ForwardShared), stream, "attention: forward, short window", problem,
         static_cast<bf16*>(output), Saved<bf16>::of(saved, input.shape));
}

void short_window_backward(const Problem<bf16>& problem, const Gradient<bf16>& gradient, cudaStream_t stream) {
  launch(backward_kernel, grid(problem), 256, sizeof(BackwardShared), stream, "attention: backward, short window",
         problem, gradient);
}

}  // namespace engram::attention
