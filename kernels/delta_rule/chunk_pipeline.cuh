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
  T solve[kSolveMatrices<T>][kChunk<T> * kRowStride<kChunk<T>>];
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

// The producer warps' side of one block.
template <bool kReverse, int kStages, typename T, int kWidth>
struct Producer {
  static constexpr int kSize = kChunk<T>, kVector = kRowStride<kWidth>;
  const Problem<T>& problem;
  const ValueRows<T>& values;
  const T *solve, *attend;
  Stage<T, kWidth>* stages;
  typename Problem<T>::Pair at;
  int chunks, first_value, columns, thread;

  float beta;
  RowRegisters<kWidth> k, q;  // used only where rows are aligned to 4 bytes
  RowRegisters<64> value;

  __device__ int chunk_at(int i) const { return kReverse ? chunks - 1 - i : i; }
  __device__ Stage<T, kWidth>& stage(int i) const { return stages[i % kStages]; }
  __device__ int begin(int i) const { return chunk_at(i) * kSize; }
  __device__ int valid(int i) const { return min(kSize, at.length - begin(i)); }
  __device__ std::int64_t value_offset(int i) const {
    return (static_cast<std::int64_t>(at.row) * problem.time + begin(i)) * values.row_stride +
           at.head * problem.width + first_value;
  }

  // Starts the asynchronous copies of the i-th chunk of the walk, as one group, empty past the end.
  __device__ void copy(int i) {
    if (i < chunks) {
      const std::int64_t offset = problem.strided(at, begin(i)), square = problem.chunk_index(blockIdx.x, chunk_at(i));
      if (problem.copy_bytes > 4) {
        copy_rows_async(stage(i).k, kVector, problem.k + offset, problem.row_stride, valid(i), problem.width,
                        problem.copy_bytes, thread, kProducerThreads);
        copy_rows_async(stage(i).q, kVector, problem.q + offset, problem.row_stride, valid(i), problem.width,
                        problem.copy_bytes, thread, kProducerThreads);
      }
      if (values.copy_bytes > 4)
        copy_rows_async(stage(i).value, kValueStride, values.data + value_offset(i), values.row_stride, valid(i),
                        columns, values.copy_bytes, thread, kProducerThreads);
#pragma unroll
      for (int m = 0; m < kSolveMatrices<T>; ++m)
        copy_triangle(stage(i).solve[m], solve + (square * kSolveMatrices<T> + m) * (kSize * kSize), thread,
                      kProducerThreads);
      copy_triangle(stage(i).attend, attend + square * (kSize * kSize), thread, kProducerThreads);
    }
    commit_copies();
  }
  // What goes through registers, in two halves so that the loads are under way while others compute.
  __device__ void load(int i) {
    if (i >= chunks) return;
    if (thread < kSize)
      beta = thread < valid(i) ? static_cast<float>(problem.beta[problem.scalar(at, begin(i) + thread)]) : 0.0f;
    if constexpr (sizeof(T) == 2) {
      const std::int64_t offset = problem.strided(at, begin(i));
      if (problem.copy_bytes == 4) {
        k.load(problem.k + offset, problem.row_stride, valid(i), problem.width, thread);
        q.load(problem.q + offset, problem.row_stride, valid(i), problem.width, thread);
      }
      if (values.copy_bytes == 4)
        value.load(values.data + value_offset(i), values.row_stride, valid(i), columns, thread);
    }
  }
  __device__ void store(int i) {
    if (i >= chunks) return;
    if (thread < kSize) stage(i).beta[thread] = beta;
    if constexpr (sizeof(T) == 2) {
      if (problem.copy_bytes == 4) {
        k.store(stage(i).k, kVector, thread);
        q.store(stage(i).q, kVector, thread);
      }
      if (values.copy_bytes == 4) value.store(stage(i).value, kValueStride, thread);
    }
  }
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
  for (int i = 0; i < kStages; ++i) {  // the padding; copies write beside it
    zero_columns(stages[i].k, kVector, problem.width, kWidth, threadIdx.x, blockDim.x);
    zero_columns(stages[i].q, kVector, problem.width, kWidth, threadIdx.x, blockDim.x);
    zero_columns(stages[i].value, kValueStride, columns, 16 * kMaxConsumers, threadIdx.x, blockDim.x);
  }
  if (static_cast<int>(threadIdx.x) < consumer_threads) {
    for (int i = 0; i < chunks; ++i) {
      role_barrier();
      if constexpr (kStages == 1) role_barrier();
      compute(stages[i % kStages], kReverse ? chunks - 1 - i : i);
    }
    return;
  }

  Producer<kReverse, kStages, T, kWidth> producer{problem, values, solve, attend, stages, at, chunks, first_value,
                                                  columns, static_cast<int>(threadIdx.x) - consumer_threads};
  if constexpr (kStages == 1) {
    for (int i = 0; i < chunks; ++i) {
      producer.load(i);
      role_barrier();
      producer.copy(i);
      producer.store(i);
      wait_for_copies();
      role_barrier();
    }
  } else {
    for (int i = 0; i < kStages - 1; ++i) producer.copy(i);
    producer.load(0);
    producer.store(0);
    producer.load(1);
    wait_for_groups<kStages - 2>();
    for (int i = 0; i < chunks; ++i) {
      role_barrier();
      producer.copy(i + kStages - 1);
      producer.store(i + 1);
      producer.load(i + 2);
      wait_for_groups<kStages - 2>();
    }
  }
}

// How a recurrence is launched: kMostStages where shared memory holds them, else one; as many consumer warps a block as keep
// the multiprocessors busy.
constexpr int kMostStages = 3;

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
    const int stages = kMostStages * sizeof(Stage<T, kWidth>) <= most ? kMostStages : 1;
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

// Two right operands, 16 x 8 each, of the block at row and column of -Z, as it is and transposed.
template <typename T>
struct SolveOperand {
  static constexpr int kCount = sizeof(T) == 2 ? kSolveMatrices<T> : kPlanes<T>;
  FragmentB<kCount> tile[2];

  template <bool kTransposed, int kWidth>
  __device__ void load(const Stage<T, kWidth>& stage, int row, int column) {
    constexpr int kSquare = kRowStride<kChunk<T>>;
    if constexpr (sizeof(T) == 2) {
#pragma unroll
      for (int m = 0; m < kCount; ++m) {
        FragmentB<1> part[2];
        if constexpr (kTransposed)
          load_b_transposed(part, stage.solve[m] + row * kSquare + column, kSquare);
        else
          load_b(part, stage.solve[m] + row * kSquare + column, kSquare);
#pragma unroll
        for (int i = 0; i < 4; ++i) tile[i / 2].plane[m][i % 2] = part[i / 2].plane[0][i % 2];
      }
    } else if constexpr (kTransposed) {
      load_b_transposed(tile, stage.solve[0] + row * kSquare + column, kSquare);
    } else {
      load_b(tile, stage.solve[0] + row * kSquare + column, kSquare);
    }
  }
};

}  // namespace engram::delta_rule
