#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/delta_rule/delta_rule.h"

namespace engram {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kMaxWidth = 128;

template <typename T>
struct StepArguments {
  int width, groups;
  float scale;
  const T *q, *k, *v, *beta;
  float* state;
  T* output;
};

// One block a row and head. Thread (group, pair) holds columns 2 pair and 2 pair + 1 of the state's rows group,
// group + groups, ...; the state is read once, kept in registers, and written once.
template <typename T, int kRows>
__global__ void __launch_bounds__(kMaxThreads) step_kernel(StepArguments<T> arguments) {
  __shared__ float q[kMaxWidth], k[kMaxWidth];
  __shared__ float4 partial[kMaxThreads];  // columns of K^T S, then of Q^T S
  __shared__ float partial_score[kMaxThreads];
  __shared__ float2 write[kMaxWidth / 2];
  const int width = arguments.width, pairs = width / 2, groups = arguments.groups;
  const int pair = threadIdx.x % pairs, group = threadIdx.x / pairs;
  const bool active = group < groups;
  const std::int64_t vector = static_cast<std::int64_t>(blockIdx.x) * width;
  auto* state = reinterpret_cast<float2*>(arguments.state + vector * width);

  float2 own[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = group + i * groups;
    own[i] = active && row < width ? state[row * pairs + pair] : make_float2(0.0f, 0.0f);
  }
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    q[i] = static_cast<float>(arguments.q[vector + i]);
    k[i] = static_cast<float>(arguments.k[vector + i]);
  }
  __syncthreads();

  if (active) {
    float4 sum = {};
    float score = 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = group + i * groups;
      if (row >= width) continue;
      sum.x += k[row] * own[i].x;
      sum.y += k[row] * own[i].y;
      sum.z += q[row] * own[i].x;
      sum.w += q[row] * own[i].y;
      score += q[row] * k[row];
    }
    partial[group * pairs + pair] = sum;
    if (pair == 0) partial_score[group] = score;
  }
  __syncthreads();
  if (active && group == 0) {
    float4 sum = {};
    float score = 0;
    for (int i = 0; i < groups; ++i) {
      const float4 part = partial[i * pairs + pair];
      sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
      score += partial_score[i];
    }
    const float beta = static_cast<float>(arguments.beta[blockIdx.x]);
    const std::int64_t column = vector + 2 * pair;
    const float2 u = make_float2(beta * (static_cast<float>(arguments.v[column]) - sum.x),
                                 beta * (static_cast<float>(arguments.v[column + 1]) - sum.y));
    write[pair] = u;
    arguments.output[column] = T(arguments.scale * (sum.z + score * u.x));
    arguments.output[column + 1] = T(arguments.scale * (sum.w + score * u.y));
  }
  __syncthreads();
  if (!active) return;
  const float2 u = write[pair];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = group + i * groups;
    if (row < width) state[row * pairs + pair] = make_float2(own[i].x + k[row] * u.x, own[i].y + k[row] * u.y);
  }
}

}  // namespace

void delta_rule_step(const DeltaRuleStep& step, cudaStream_t stream) {
  if (step.width < 2 || step.width > kMaxWidth || step.width % 2 != 0 || step.rows < 1 || step.heads < 1)
    throw std::runtime_error("delta rule step: rows " + std::to_string(step.rows) + ", heads " +
                             std::to_string(step.heads) + " and width " + std::to_string(step.width) +
                             " must be positive, and the width even and at most 128");
  dispatch_dtype(step.dtype, [&](auto element) {
    using T = decltype(element);
    const int pairs = step.width / 2, groups = std::min(step.width, kMaxThreads / pairs);
    const StepArguments<T> arguments{step.width, groups, step.scale, static_cast<const T*>(step.q_NHD),
                                     static_cast<const T*>(step.k_NHD), static_cast<const T*>(step.v_NHD),
                                     static_cast<const T*>(step.beta_NH), step.state_NHKV,
                                     static_cast<T*>(step.output_NHD)};
    const int threads = (pairs * groups + 31) / 32 * 32;
    const int rows = (step.width + groups - 1) / groups;
    const auto kernel = rows <= 8 ? step_kernel<T, 8> : step_kernel<T, 32>;
    kernel<<<step.rows * step.heads, threads, 0, stream>>>(arguments);
    check_cuda(cudaGetLastError(), "delta rule: step");
  });
}

}  // namespace engram
