#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/delta_rule/delta_rule.h"

namespace engram {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kMaxWidth = 128;

// A state is read and written in pieces of four floats, whatever the width: where a row is no whole number of pieces,
// two rows are. A band is the fewest rows that are.
template <typename T>
struct StepArguments {
  int width, band_rows, band_pieces, groups;
  float scale;
  const T *q, *k, *v, *beta;
  float* state;
  T* output;
};

// One block a row and head. Thread (group, piece) holds a piece of the bands group, group + groups, ...; the state is
// read once, kept in registers, and written once. All that is read from memory is asked for at the start.
template <typename T, int kBands>
__global__ void __launch_bounds__(kMaxThreads, kBands <= 4 ? 5 : 2) step_kernel(StepArguments<T> arguments) {
  __shared__ float q[kMaxWidth], k[kMaxWidth], score;
  __shared__ float4 partial[2 * kMaxThreads];  // columns of K^T S, then of Q^T S
  __shared__ float2 write[kMaxWidth / 2];
  const int width = arguments.width, pairs = width / 2, groups = arguments.groups;
  const int band_rows = arguments.band_rows, band_pieces = arguments.band_pieces, bands = width / band_rows;
  const int piece = threadIdx.x % band_pieces, group = threadIdx.x / band_pieces;
  const int pieces = bands * band_pieces, stride = groups * band_pieces;  // of the state, and between a thread's
  const bool active = group < groups;
  const std::int64_t vector = static_cast<std::int64_t>(blockIdx.x) * width;
  auto* state = reinterpret_cast<float4*>(arguments.state + vector * width);

  float4 own[kBands];
#pragma unroll
  for (int i = 0; i < kBands; ++i) {
    const int at = threadIdx.x + i * stride;
    own[i] = active && at < pieces ? state[at] : float4{};
  }
  const int column = threadIdx.x;
  float value = 0, beta = 0;
  if (column < width) {
    value = static_cast<float>(arguments.v[vector + column]);
    beta = static_cast<float>(arguments.beta[blockIdx.x]);
  }
  if (threadIdx.x < 32) {
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += 32) {
      q[i] = static_cast<float>(arguments.q[vector + i]);
      k[i] = static_cast<float>(arguments.k[vector + i]);
      sum += q[i] * k[i];
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (threadIdx.x == 0) score = sum;
  }
  __syncthreads();

  // The piece's two pairs of columns: their rows in the band, and their columns' pairs.
  const int row_a = 2 * piece >= pairs, row_b = 2 * piece + 1 >= pairs;
  const int pair_a = 2 * piece - row_a * pairs, pair_b = 2 * piece + 1 - row_b * pairs;
  if (active) {
    float4 a = {}, b = {};
#pragma unroll
    for (int i = 0; i < kBands; ++i) {
      if (static_cast<int>(threadIdx.x) + i * stride >= pieces) continue;
      const int row = (group + i * groups) * band_rows;
      const float k_a = k[row + row_a], q_a = q[row + row_a], k_b = k[row + row_b], q_b = q[row + row_b];
      a.x += k_a * own[i].x, a.y += k_a * own[i].y, a.z += q_a * own[i].x, a.w += q_a * own[i].y;
      b.x += k_b * own[i].z, b.y += k_b * own[i].w, b.z += q_b * own[i].z, b.w += q_b * own[i].w;
    }
    partial[2 * threadIdx.x] = a;
    partial[2 * threadIdx.x + 1] = b;
  }
  __syncthreads();
  if (column < width) {
    const auto* parts = reinterpret_cast<const float*>(partial) + column / 2 * 4 + column % 2;
    float read_k = 0, read_q = 0;
#pragma unroll 4
    for (int i = 0; i < groups * band_rows; ++i) {
      read_k += parts[i * pairs * 4];
      read_q += parts[i * pairs * 4 + 2];
    }
    const float u = beta * (value - read_k);
    reinterpret_cast<float*>(write)[column] = u;
    arguments.output[vector + column] = T(arguments.scale * (read_q + score * u));
  }
  __syncthreads();
  if (!active) return;
  const float2 u_a = write[pair_a], u_b = write[pair_b];
#pragma unroll
  for (int i = 0; i < kBands; ++i) {
    const int at = threadIdx.x + i * stride, row = (group + i * groups) * band_rows;
    if (at >= pieces) continue;
    const float k_a = k[row + row_a], k_b = k[row + row_b];
    state[at] =
        make_float4(own[i].x + k_a * u_a.x, own[i].y + k_a * u_a.y, own[i].z + k_b * u_b.x, own[i].w + k_b * u_b.y);
  }
}

}  // namespace

void delta_rule_step(const DeltaRuleStep& step, cudaStream_t stream) {
  if (step.width < 2 || step.width > kMaxWidth || step.width % 2 != 0 || step.rows < 1 || step.heads < 1)
    throw std::runtime_error("delta rule step: rows " + std::to_string(step.rows) + ", heads " +
                             std::to_string(step.heads) + " and width " + std::to_string(step.width) +
                             " must be positive, and the width even and at most 128");
  if (reinterpret_cast<std::uintptr_t>(step.state_NHKV) % 16 != 0)
    throw std::runtime_error("delta rule step: the state is not aligned to 16 bytes");
  dispatch_dtype(step.dtype, [&](auto element) {
    using T = decltype(element);
    const int band_rows = step.width % 4 == 0 ? 1 : 2, band_pieces = step.width * band_rows / 4;
    const int bands = step.width / band_rows, groups = std::min(bands, kMaxThreads / band_pieces);
    const StepArguments<T> arguments{step.width,
                                     band_rows,
                                     band_pieces,
                                     groups,
                                     step.scale,
                                     static_cast<const T*>(step.q_NHD),
                                     static_cast<const T*>(step.k_NHD),
                                     static_cast<const T*>(step.v_NHD),
                                     static_cast<const T*>(step.beta_NH),
                                     step.state_NHKV,
                                     static_cast<T*>(step.output_NHD)};
    const int threads = (std::max(band_pieces * groups, step.width) + 31) / 32 * 32;
    const auto kernel = (bands + groups - 1) / groups <= 4 ? step_kernel<T, 4> : step_kernel<T, 16>;
    kernel<<<step.rows * step.heads, threads, 0, stream>>>(arguments);
    check_cuda(cudaGetLastError(), "delta rule: step");
  });
}

}  // namespace engram
