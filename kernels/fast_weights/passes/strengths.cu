#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/block/column_sums.cuh"
#include "kernels/fast_weights/passes/passes.h"
#include "kernels/fast_weights/passes/scale_walk.h"
#include "kernels/fast_weights/passes/warp_lane.cuh"

namespace engram::fast_weight_passes {
namespace {

constexpr int kResident = 4;  // blocks a multiprocessor of the backward kernel

HOST_DEVICE int write_logits(const StrengthKind& kind, int heads) { return has_write_logit(kind) ? heads : 0; }
HOST_DEVICE int decay_logits(const StrengthKind& kind, int heads) {
  return kind.decay == LogDecay::kScalar ? heads : 0;
}

template <class T>
__device__ StrengthLogits<float> logits_of(const Strengths& input, std::int64_t row, int head) {
  const T* const at = static_cast<const T*>(input.logits) + row * input.projected_stride + head;
  StrengthLogits<float> in{0, 0, 0, 0};
  if (has_write_logit(input.kind))
    in.write = static_cast<float>(at[0]) + (input.write_bias_H == nullptr ? 0 : input.write_bias_H[head]);
  if (input.kind.decay == LogDecay::kScalar) {
    in.decay = static_cast<float>(at[write_logits(input.kind, input.heads)]);
    in.bias = input.bias_H[head];
    in.log_rate = input.log_rate_H[head];
  }
  return in;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const __grid_constant__ Strengths input, T* __restrict__ write, float* __restrict__ log_decay) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x, heads = input.heads;
  if (i >= static_cast<unsigned>(input.rows) * heads) return;
  const int head = static_cast<int>(i % heads);
  const auto out = strength<DeviceMaths>(input.kind, head, logits_of<T>(input, i / heads, head));
  write[i] = static_cast<T>(out.write);
  if (gives_log_decay(input.kind)) log_decay[i] = out.log_decay;
}

// Of Write::kExponential: a block is a warp, which walks along a head of one sequence.
template <class T>
__global__ void __launch_bounds__(kScaleTile)
    scaled_kernel(const __grid_constant__ Strengths input, T* __restrict__ write, float* __restrict__ log_decay,
                  float* __restrict__ one) {
  __shared__ Strength<float> tile[kScaleTile];
  const int heads = input.heads, head = static_cast<int>(blockIdx.x) % heads;
  const std::int64_t first = std::int64_t{blockIdx.x} / heads * input.steps;
  const auto logs = [&](int step) {
    return strength<DeviceMaths>(input.kind, head, logits_of<T>(input, first + step, head));
  };
  const auto store = [&](int step, const ScaledStrength<float>& own) {
    const std::int64_t at = (first + step) * heads + head;
    write[at] = static_cast<T>(own.write);
    log_decay[at] = own.log_decay;
    one[at] = own.one;
  };
  ScaleWalk<DeviceMaths> walk(static_cast<int>(threadIdx.x), input.steps);
  walk.fetch(0, logs);
  for (int begin = 0; begin < input.steps; begin += kScaleTile) {
    walk.publish(tile);
    __syncwarp();
    walk.fetch(begin + kScaleTile, logs);
    walk.finish(begin, tile, store);
    __syncwarp();
  }
}

// A thread stays with one head, so that it can add up what all rows share: gridDim.x times the rows of a block apart.
// decay_sums: of bias and log rate, [2, blocks, heads]; write_sums: of the write bias, [blocks, heads]. Null: none.
template <class T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const __grid_constant__ Strengths input, const T* __restrict__ write, const T* __restrict__ d_write,
                    const float* __restrict__ d_log_decay, T* __restrict__ d_logits, int columns,
                    float* __restrict__ decay_sums, float* __restrict__ write_sums) {
  const int heads = input.heads, rows_of_block = kThreads / min(heads, kThreads);
  const bool has_decay = input.kind.decay == LogDecay::kScalar || input.kind.decay == LogDecay::kOfWrite;
  const bool scaled = input.kind.write == Write::kExponential;
  __shared__ float shared[3][kThreads];
  // More heads than threads take turns.
  for (int first = 0; first < heads; first += kThreads) {
    const int group = min(heads - first, kThreads), slot = static_cast<int>(threadIdx.x) / group;
    const int head = first + static_cast<int>(threadIdx.x) % group;
    float bias = 0, log_rate = 0, write_bias = 0;
    if (slot < rows_of_block)
      for (std::int64_t row = std::int64_t{blockIdx.x} * rows_of_block + slot; row < input.rows;
           row += std::int64_t{gridDim.x} * rows_of_block) {
        const Strength<float> d{static_cast<float>(d_write[row * heads + head]),
                                has_decay ? d_log_decay[row * heads + head] : 0.0f};
        const float written = scaled ? static_cast<float>(write[row * heads + head]) : 0.0f;
        const auto own = strength_backward<DeviceMaths>(input.kind, logits_of<T>(input, row, head), written, d);
        T* const to = d_logits + row * input.projected_stride;
        const int writes = write_logits(input.kind, heads), decays = decay_logits(input.kind, heads);
        if (writes > 0) to[head] = static_cast<T>(own.write);
        if (decays > 0) to[writes + head] = static_cast<T>(own.decay);
        for (int c = writes + decays + head; c < columns; c += heads) to[c] = static_cast<T>(0.0f);
        bias += own.decay;
        log_rate += own.log_rate;
        write_bias += own.write;
      }
    __syncthreads();
    shared[0][threadIdx.x] = bias;
    shared[1][threadIdx.x] = log_rate;
    shared[2][threadIdx.x] = write_bias;
    __syncthreads();
    if (static_cast<int>(threadIdx.x) >= group) continue;
    const auto add_up_slots = [&](const float(&of_thread)[kThreads], float* sums) {
      float total = 0;
      for (int s = 0; s < rows_of_block; ++s) total += of_thread[s * group + threadIdx.x];
      sums[std::int64_t{blockIdx.x} * heads + head] = total;
    };
    if (decay_sums != nullptr) {
      add_up_slots(shared[0], decay_sums);
      add_up_slots(shared[1], decay_sums + std::int64_t{gridDim.x} * heads);
    }
    if (write_sums != nullptr) add_up_slots(shared[2], write_sums);
  }
}

void check(const Strengths& input) {
  if (input.rows < 1 || input.heads < 1 || input.rows * input.heads > std::numeric_limits<int>::max())
    throw std::runtime_error("write strengths of fast weights: " + std::to_string(input.rows) + " rows of " +
                             std::to_string(input.heads) + " heads");
  if (input.kind.write == Write::kExponential && (input.steps < 1 || input.rows % input.steps != 0))
    throw std::runtime_error("write strengths of fast weights: " + std::to_string(input.rows) +
                             " rows of sequences of " + std::to_string(input.steps));
}

// Bias and log rate.
int decay_sums_of(const Strengths& input) { return input.kind.decay == LogDecay::kScalar ? 2 : 0; }

int blocks_of(const Strengths& input) { return row_blocks(input.rows, std::max(1, kThreads / input.heads), kResident); }

// Where the write bias's sums begin in the scratch.
std::int64_t write_sums_begin(const Strengths& input) {
  return std::int64_t{decay_sums_of(input)} * blocks_of(input) * input.heads;
}

}  // namespace

int logit_columns(const StrengthKind& kind, int heads) {
  return (write_logits(kind, heads) + decay_logits(kind, heads) + kVector - 1) / kVector * kVector;
}

void strengths_forward(const Strengths& input, void* write, float* log_decay, float* one, cudaStream_t stream) {
  check(input);
  const std::int64_t items = input.rows * input.heads;
  dispatch_dtype(input.dtype, [&](auto element) {
    using T = decltype(element);
    if (input.kind.write == Write::kExponential)
      scaled_kernel<T><<<static_cast<unsigned>(items / input.steps), kScaleTile, 0, stream>>>(
          input, static_cast<T*>(write), log_decay, one);
    else
      forward_kernel<T><<<static_cast<unsigned>((items + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
          input, static_cast<T*>(write), log_decay);
  });
  check_cuda(cudaGetLastError(), "write strengths of fast weights");
}

std::size_t strengths_backward_scratch_bytes(const Strengths& input) {
  check(input);
  const int sums = decay_sums_of(input) + (input.write_bias_H == nullptr ? 0 : 1);
  return sizeof(float) * sums * blocks_of(input) * input.heads;
}

void strengths_backward(const Strengths& input, const void* write, const void* d_write, const float* d_log_decay,
                        void* d_logits, void* scratch, cudaStream_t stream) {
  check(input);
  const int blocks = blocks_of(input);
  float* const decay_sums = decay_sums_of(input) == 0 ? nullptr : static_cast<float*>(scratch);
  float* const write_sums =
      input.write_bias_H == nullptr ? nullptr : static_cast<float*>(scratch) + write_sums_begin(input);
  dispatch_dtype(input.dtype, [&](auto element) {
    using T = decltype(element);
    backward_kernel<T><<<blocks, kThreads, 0, stream>>>(
        input, static_cast<const T*>(write), static_cast<const T*>(d_write), d_log_decay, static_cast<T*>(d_logits),
        logit_columns(input.kind, input.heads), decay_sums, write_sums);
  });
  check_cuda(cudaGetLastError(), "gradients of write strengths of fast weights");
}

std::array<GradientSum, 2> strengths_sums(const Strengths& input, const void* scratch, float* d_bias_H,
                                          float* d_log_rate_H) {
  check(input);
  const int blocks = blocks_of(input);
  const float* const sums = static_cast<const float*>(scratch);
  return {vector_sum(sums, blocks, input.heads, input.heads, d_bias_H),
          vector_sum(sums + std::int64_t{blocks} * input.heads, blocks, input.heads, input.heads, d_log_rate_H)};
}

GradientSum write_bias_sum(const Strengths& input, const void* scratch, float* d_write_bias_H) {
  check(input);
  return vector_sum(static_cast<const float*>(scratch) + write_sums_begin(input), blocks_of(input), input.heads,
                    input.heads, d_write_bias_H);
}

}  // namespace engram::fast_weight_passes
