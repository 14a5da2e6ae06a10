#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/fast_weights/delta_rule/rule.h"
#include "kernels/fast_weights/delta_rule/step.h"

namespace engram {
namespace {

constexpr int kMaxWidth = 128;

// A state is read and written in pieces of four floats, whatever the width: where a row is no whole number of pieces,
// two rows are. A band is the fewest rows that are.
template <typename T>
struct StepArguments {
  int heads, width, band_rows, band_pieces, groups, output_width;
  std::int64_t row_stride, head_stride;  // of q, k and v
  float scale;
  const T *q, *k, *v, *beta;
  const float* log_decay;  // null: no decay
  float* key_sum;          // null: none
  float* state;
  T* output;
};

// One block a row and head. Thread (group, piece) holds a piece of the bands group, group + groups, ...; the state is
// read once, kept in registers, and written once. All that is read from memory is asked for at the start, before
// anything is used; small blocks keep more states under way. kBlocks: of a multiprocessor, at least. The state decays
// on its way: what is read of it, and what is kept, is multiplied where it is used.
template <typename Rule, typename T, int kThreads, int kBands, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks) step_kernel(StepArguments<T> arguments) {
  constexpr int kColumns = (kMaxWidth + kThreads - 1) / kThreads;  // of a thread, at most
  __shared__ float q[kMaxWidth], k[kMaxWidth], score;
  __shared__ float4 partial[2 * kThreads];  // columns of K^T S, then of Q^T S
  __shared__ float2 write[kMaxWidth / 2];
  const int width = arguments.width, pairs = width / 2, groups = arguments.groups;
  const int band_rows = arguments.band_rows, band_pieces = arguments.band_pieces, bands = width / band_rows;
  const int piece = threadIdx.x % band_pieces, group = threadIdx.x / band_pieces;
  const int pieces = bands * band_pieces, stride = groups * band_pieces;  // of the state, and between a thread's
  const bool active = group < groups;
  const int row = static_cast<int>(blockIdx.x) / arguments.heads, head = static_cast<int>(blockIdx.x) % arguments.heads;
  const std::int64_t vector = row * arguments.row_stride + head * arguments.head_stride;
  const std::int64_t of_keys = static_cast<std::int64_t>(blockIdx.x) * width;
  auto* state = reinterpret_cast<float4*>(arguments.state + of_keys * width);
  T* const output = arguments.output + static_cast<std::int64_t>(blockIdx.x) * arguments.output_width;

  float4 own[kBands];
#pragma unroll
  for (int i = 0; i < kBands; ++i) {
    const int at = threadIdx.x + i * stride;
    own[i] = active && at < pieces ? state[at] : float4{};
  }
  T own_q[kColumns], own_k[kColumns], value[kColumns];
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int column = threadIdx.x + i * kThreads;
    if (column >= width) continue;
    own_q[i] = arguments.q[vector + column];
    own_k[i] = arguments.k[vector + column];
    value[i] = arguments.v[vector + column];
  }
  const float beta = static_cast<float>(arguments.beta[blockIdx.x]);
  float kept = 1.0f;
  if constexpr (Rule::kDecay)
    if (arguments.log_decay != nullptr) kept = expf(arguments.log_decay[blockIdx.x]);
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int column = threadIdx.x + i * kThreads;
    if (column >= width) continue;
    q[column] = static_cast<float>(own_q[i]);
    k[column] = static_cast<float>(own_k[i]);
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
      const int first = (group + i * groups) * band_rows;
      const float k_a = k[first + row_a], q_a = q[first + row_a], k_b = k[first + row_b], q_b = q[first + row_b];
      a.x += k_a * own[i].x, a.y += k_a * own[i].y, a.z += q_a * own[i].x, a.w += q_a * own[i].y;
      b.x += k_b * own[i].z, b.y += k_b * own[i].w, b.z += q_b * own[i].z, b.w += q_b * own[i].w;
    }
    partial[2 * threadIdx.x] = a;
    partial[2 * threadIdx.x + 1] = b;
  }
  if (threadIdx.x < 32) {
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += 32) sum += q[i] * k[i];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (threadIdx.x == 0) score = sum;
    if constexpr (!Rule::kDelta)
      if (arguments.key_sum != nullptr) {
        float along = 0;
        for (int i = threadIdx.x; i < width; i += 32) {
          float& key_sum = arguments.key_sum[of_keys + i];
          const float after = kept * key_sum + beta * k[i];
          key_sum = after;
          along += after * q[i];
        }
        for (int offset = 16; offset > 0; offset /= 2) along += __shfl_xor_sync(~0u, along, offset);
        if (threadIdx.x == 0) output[width] = T(arguments.scale * along);
      }
  }
  const int written = width + (arguments.key_sum == nullptr ? 0 : 1);
  for (int column = written + threadIdx.x; column < arguments.output_width; column += kThreads)
    output[column] = T(0.0f);
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    const int column = threadIdx.x + j * kThreads;
    if (column >= width) continue;
    const auto* parts = reinterpret_cast<const float*>(partial) + column / 2 * 4 + column % 2;
    float read_k = 0, read_q = 0;
#pragma unroll 4
    for (int i = 0; i < groups * band_rows; ++i) {
      read_k += parts[i * pairs * 4];
      read_q += parts[i * pairs * 4 + 2];
    }
    if constexpr (Rule::kDecay) read_k *= kept, read_q *= kept;
    const float u = beta * (Rule::kDelta ? static_cast<float>(value[j]) - read_k : static_cast<float>(value[j]));
    reinterpret_cast<float*>(write)[column] = u;
    output[column] = T(arguments.scale * (read_q + score * u));
  }
  __syncthreads();
  if (!active) return;
  const float2 u_a = write[pair_a], u_b = write[pair_b];
#pragma unroll
  for (int i = 0; i < kBands; ++i) {
    const int at = threadIdx.x + i * stride, first = (group + i * groups) * band_rows;
    if (at >= pieces) continue;
    const float k_a = k[first + row_a], k_b = k[first + row_b];
    if constexpr (Rule::kDecay) own[i].x *= kept, own[i].y *= kept, own[i].z *= kept, own[i].w *= kept;
    state[at] =
        make_float4(own[i].x + k_a * u_a.x, own[i].y + k_a * u_a.y, own[i].z + k_b * u_b.x, own[i].w + k_b * u_b.y);
  }
}

// False where a thread would have more bands than it can keep.
template <typename Rule, typename T, int kThreads, int kBands, int kBlocks>
bool launch(StepArguments<T> arguments, int blocks, cudaStream_t stream) {
  const int bands = arguments.width / arguments.band_rows;
  arguments.groups = std::min(bands, kThreads / arguments.band_pieces);
  if ((bands + arguments.groups - 1) / arguments.groups > kBands) return false;
  step_kernel<Rule, T, kThreads, kBands, kBlocks><<<blocks, kThreads, 0, stream>>>(arguments);
  return true;
}

}  // namespace

void delta_rule_step(const DeltaRuleStep& step, cudaStream_t stream) {
  delta_rule_step(step, {std::int64_t{step.heads} * step.width, step.width, step.width, nullptr}, stream);
}

void delta_rule_step(const DeltaRuleStep& step, const DeltaRuleStepRows& rows, cudaStream_t stream) {
  if (step.width < 2 || step.width > kMaxWidth || step.width % 2 != 0 || step.rows < 1 || step.heads < 1)
    throw std::runtime_error("delta rule step: rows " + std::to_string(step.rows) + ", heads " +
                             std::to_string(step.heads) + " and width " + std::to_string(step.width) +
                             " must be positive, and the width even and at most 128");
  if (reinterpret_cast<std::uintptr_t>(step.state_NHKV) % 16 != 0)
    throw std::runtime_error("delta rule step: the state is not aligned to 16 bytes");
  const bool sums_keys = rows.key_sum_NHK != nullptr;
  if (rows.head_stride < step.width || rows.row_stride < step.width ||
      rows.output_width < step.width + (sums_keys ? 1 : 0))
    throw std::runtime_error("delta rule step: heads of " + std::to_string(step.width) + " channels " +
                             std::to_string(rows.head_stride) + " apart in rows " + std::to_string(rows.row_stride) +
                             " apart, and outputs of " + std::to_string(rows.output_width));
  if (sums_keys && step.write != FastWeightWrite::kSum)
    throw std::runtime_error("delta rule step: the delta rule has no sum of keys");
  dispatch_dtype(step.dtype, [&](auto element) {
    using T = decltype(element);
    const int band_rows = step.width % 4 == 0 ? 1 : 2;
    const StepArguments<T> arguments{step.heads,
                                     step.width,
                                     band_rows,
                                     step.width * band_rows / 4,
                                     0,
                                     rows.output_width,
                                     rows.row_stride,
                                     rows.head_stride,
                                     step.scale,
                                     static_cast<const T*>(step.q_NHD),
                                     static_cast<const T*>(step.k_NHD),
                                     static_cast<const T*>(step.v_NHD),
                                     static_cast<const T*>(step.beta_NH),
                                     step.log_decay_NH,
                                     rows.key_sum_NHK,
                                     step.state_NHKV,
                                     static_cast<T*>(step.output_NHD)};
    const int blocks = step.rows * step.heads;
    delta_rule::dispatch_rule(step.write, step.log_decay_NH != nullptr, [&](auto rule) {
      using Rule = decltype(rule);
      if (!launch<Rule, T, 128, 8, 8>(arguments, blocks, stream))
        launch<Rule, T, 256, 16, 2>(arguments, blocks, stream);
    });
    check_cuda(cudaGetLastError(), "delta rule: step");
  });
}

}  // namespace engram
