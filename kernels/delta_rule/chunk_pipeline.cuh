// The serial walk over a sequence's chunks that the forward and the backward recurrence share. A block holds the
// columns of one head's state for 16 values a consumer warp, on chip for the whole walk; the columns are
// independent, so consumer warps never wait for each other. Four producer warps bring the next chunk to shared
// memory meanwhile.
#pragma once

#include "kernels/delta_rule/chunk_layout.cuh"

namespace engram::delta_rule {

constexpr int kProducerThreads = 128;
constexpr int kMaxConsumers = 4;
constexpr int kValueStride = kRowStride<16 * kMaxConsumers>;

template <typename T, int kWidth>
struct Stage {
  T k[kChunk<T> * kRowStride<kWidth>];
  T q[kChunk<T> * kRowStride<kWidth>];
  T value[kChunk<T> * kValueStride];  // the block's columns of v, or of the output's gradient
  T solve[kChunk<T> * kRowStride<kChunk<T>>];
  T attend[kChunk<T> * kRowStride<kChunk<T>>];
  float beta[kChunk<T>];
};

// Rows [B, T, H, D] that a stage takes its `value` from.
template <typename T>
struct ValueRows {
  const T* data;
  std::int64_t row_stride;
  int copy_bytes;
};

// Calls compute(stage, chunk) in every consumer thread, for chunks 0, 1, ... or, reversed, from the last.
template <bool kReverse, int kStages, typename T, int kWidth, typename Compute>
__device__ void for_each_chunk(const Problem<T>& problem, const ValueRows<T>& values, const T* solve, const T* attend,
                               Stage<T, kWidth>* stages, const Compute& compute) {
  constexpr int kSize = kChunk<T>, kVector = kRowStride<kWidth>;
  const auto at = problem.pair(blockIdx.x);
  const int chunks = (at.length + kSize - 1) / kSize;
  const int consumer_threads = blockDim.x - kProducerThreads;
  const int first_value = blockIdx.y * (consumer_threads / 2);
  const int columns = min(problem.width - first_value, consumer_threads / 2);
  const bool produces = static_cast<int>(threadIdx.x) >= consumer_threads;
  const int thread = threadIdx.x - consumer_threads;

  const auto chunk_at = [&](int i) { return kReverse ? chunks - 1 - i : i; };
  const auto produce = [&](int i) {
    Stage<T, kWidth>& stage = stages[i % kStages];
    const int begin = chunk_at(i) * kSize, valid = min(kSize, at.length - begin);
    const std::int64_t offset = problem.strided(at, begin);
    const std::int64_t square = problem.chunk_index(blockIdx.x, chunk_at(i)) * (kSize * kSize);
    copy_rows(stage.k, kVector, problem.k + offset, problem.row_stride, valid, kSize, problem.width,
              problem.copy_bytes, thread, kProducerThreads);
    copy_rows(stage.value, kValueStride,
              values.data + (static_cast<std::int64_t>(at.row) * problem.time + begin) * values.row_stride +
                  at.head * problem.width + first_value,
              values.row_stride, valid, kSize, columns, values.copy_bytes, thread, kProducerThreads);
    copy_triangle(stage.solve, solve + square, thread, kProducerThreads);
    copy_rows(stage.q, kVector, problem.q + offset, problem.row_stride, valid, kSize, problem.width,
              problem.copy_bytes, thread, kProducerThreads);
    copy_triangle(stage.attend, attend + square, thread, kProducerThreads);
    load_beta(stage.beta, problem, at, begin, thread, kProducerThreads);
    wait_for_copies();
  };

  for (int i = 0; i < kStages; ++i) {
    zero_columns(stages[i].k, kVector, kSize, problem.width, kWidth, threadIdx.x, blockDim.x);
    zero_columns(stages[i].q, kVector, kSize, problem.width, kWidth, threadIdx.x, blockDim.x);
    zero_columns(stages[i].value, kValueStride, kSize, columns, 16 * kMaxConsumers, threadIdx.x, blockDim.x);
  }
  if (kStages > 1 && produces && chunks > 0) produce(0);
  for (int i = 0; i < chunks; ++i) {
    __syncthreads();
    if constexpr (kStages == 1) {
      if (produces) produce(i);
      __syncthreads();
    }
    if (!produces)
      compute(stages[i % kStages], chunk_at(i));
    else if (kStages > 1 && i + 1 < chunks)
      produce(i + 1);
  }
}

// How a recurrence is launched: two stages where shared memory holds them, as many consumer warps a block as keep
// the multiprocessors busy.
struct RecurrenceLaunch {
  dim3 grid;
  int threads, stages;
  std::size_t bytes;

  template <typename T, int kWidth>
  static RecurrenceLaunch of(const Problem<T>& problem) {
    const int pairs = problem.batch * problem.heads, tiles = (problem.width + 15) / 16;
    const int multiprocessors = cuda_device_attribute(cudaDevAttrMultiProcessorCount);
    const std::size_t most = cuda_device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    int consumers = std::min(tiles, kMaxConsumers);
    while (consumers > 1 && pairs * ((tiles + (consumers + 1) / 2 - 1) / ((consumers + 1) / 2)) <= multiprocessors)
      consumers = (consumers + 1) / 2;
    const int stages = 2 * sizeof(Stage<T, kWidth>) <= most ? 2 : 1;
    return {dim3(pairs, (tiles + consumers - 1) / consumers), 32 * consumers + kProducerThreads, stages,
            stages * sizeof(Stage<T, kWidth>)};
  }
};

// A column of tiles of the transposed state (rows: 16 values from `first_value`; columns: keys) from and to global
// memory [B, H, K, V], times `factor`; a null source is zero.
template <int kTiles, typename T>
__device__ inline void load_state(Accumulator (&state)[kTiles], const Problem<T>& problem, const float* source,
                                  int first_value, float factor) {
  const float* origin = source + static_cast<std::int64_t>(blockIdx.x) * problem.width * problem.width;
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int key = tile * 8 + 2 * t + e % 2, value = first_value + g + e / 2 * 8;
      const bool inside = source != nullptr && key < problem.width && value < problem.width;
      state[tile].x[e] = inside ? origin[key * problem.width + value] * factor : 0.0f;
    }
}
template <int kTiles, typename T>
__device__ inline void store_state(const Accumulator (&state)[kTiles], const Problem<T>& problem, float* target,
                                   int first_value, float factor) {
  float* origin = target + static_cast<std::int64_t>(blockIdx.x) * problem.width * problem.width;
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int key = tile * 8 + 2 * t + e % 2, value = first_value + g + e / 2 * 8;
      if (key < problem.width && value < problem.width) origin[key * problem.width + value] = state[tile].x[e] * factor;
    }
}

// Two tiles [16 values x 8 steps] beside each other, times beta of their steps, as a left operand.
template <int kCount>
__device__ inline void weigh(FragmentA<kCount>& a, const Accumulator& left, const Accumulator& right,
                             const float* beta, float factor) {
  const int t = lane_id() % 4;
  const float2 b0 = *reinterpret_cast<const float2*>(beta + 2 * t);
  const float2 b1 = *reinterpret_cast<const float2*>(beta + 8 + 2 * t);
  const Accumulator x{{left.x[0] * b0.x * factor, left.x[1] * b0.y * factor, left.x[2] * b0.x * factor,
                       left.x[3] * b0.y * factor}};
  const Accumulator y{{right.x[0] * b1.x * factor, right.x[1] * b1.y * factor, right.x[2] * b1.x * factor,
                       right.x[3] * b1.y * factor}};
  to_fragment(a, x, y);
}

}  // namespace engram::delta_rule
