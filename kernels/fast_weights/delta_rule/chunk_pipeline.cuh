// The serial walk over a sequence's chunks that the forward and the backward recurrence share. A block holds the
// columns of one head's state for up to four slices of 16 values, on chip for the whole walk. A slice has two or four
// warps, which share the keys where a product sums or writes over keys, and the steps elsewhere. Four producer warps
// bring the next chunks to shared memory meanwhile. A chunk is worked on in phases, between which all warps meet at one
// barrier.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/fast_weights/delta_rule/chunk_layout.cuh"

namespace engram::delta_rule {

constexpr int kProducerThreads = 128;
constexpr int kMaxSlices = 4;
constexpr int kRecurrenceThreads = 64 * kMaxSlices + kProducerThreads;  // at most
constexpr int kValueStride = kRowStride<16 * kMaxSlices>;

template <typename T, bool kDecay>
struct StageDecays {};
template <typename T>
struct StageDecays<T, true> {
  float from_start[kChunk<T>], to_end[kChunk<T>];  // of Decays
};

// What only reading the memory takes.
template <typename T, int kWidth, bool kReads>
struct StageQueries {
  T q[kChunk<T> * kRowStride<kWidth>];
};
template <typename T, int kWidth>
struct StageQueries<T, kWidth, false> {};

// kReads: with what reading the memory takes, beside what writing to it does.
template <typename Rule, typename T, int kWidth, bool kReads = true>
struct Stage : StageDecays<T, Rule::kDecay>, StageQueries<T, kWidth, kReads> {
  T k[kChunk<T> * kRowStride<kWidth>];
  T value[kChunk<T> * kValueStride];  // the block's columns of v, or of the output's gradient
  TrianglesOf<T, kReads> triangles;
  float beta[kChunk<T>];
};

// Rows [B, T, H, D] that a stage takes its `value` from.
template <typename T>
struct ValueRows {
  const T* data;
  std::int64_t row_stride;
  int copy_bytes;  // 0: nothing is copied
};

// What a warp, one of kParts, of a slice works on. Of the steps two warps have the blocks of 16 that the triangles make
// equal work.
template <typename T, int kWidth, int kParts>
struct SliceWarp {
  static constexpr int kBlocks = kChunk<T> / 16;
  static constexpr int kOwnBlocks = kBlocks / kParts, kOwnKeys = kWidth / 16 / kParts;  // blocks of 16
  static_assert(kParts == 2 || kOwnBlocks == 1);
  int slices, slice, part;
  int block_value, first_value, columns;  // of the block, of the slice, from the slice's first to the width
  int first_key;
  bool works;

  // `block`: the block's number among those that share a head's values.
  __device__ static SliceWarp of(int width, int block) {
    const int slices = (blockDim.x - kProducerThreads) / (32 * kParts), warp = threadIdx.x / 32;
    const int slice = warp % slices, part = warp / slices % kParts, block_value = block * slices * 16;
    const int columns = width - block_value - slice * 16;
    return {slices,
            slice,
            part,
            block_value,
            block_value + slice * 16,
            columns,
            part * (kWidth / kParts),
            warp < kParts * slices && columns > 0};
  }
  __device__ int own_block(int b) const { return b == 0 ? part : kBlocks - 1 - part; }

  // The sum of the parts' x, in the same order in every warp; `own` is this warp's.
  __device__ void add_parts(Accumulator (&own)[2 * kBlocks], const float4 (&part_x)[kParts][2 * kBlocks][32]) const {
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) {
      if constexpr (kParts == 2) {
        add_accumulator(own[i], part_x[1 - part][i]);
      } else {
        own[i] = Accumulator{};
#pragma unroll
        for (int p = 0; p < kParts; ++p) add_accumulator(own[i], part_x[p][i]);
      }
    }
  }
  // The tiles of this warp's steps among those of all.
  __device__ void select_own(Accumulator (&own)[2 * kOwnBlocks], const Accumulator (&all)[2 * kBlocks]) const {
#pragma unroll
    for (int b = 0; b < kOwnBlocks; ++b)
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
#pragma unroll
          for (int p = 0; p < kParts; ++p)
            if (p == part) own[2 * b + i].x[e] = all[2 * (b == 0 ? p : kBlocks - 1 - p) + i].x[e];
        }
  }
  // Stores a block of steps' two transposed tiles to rows whose chunk starts at `rows`.
  __device__ void store_steps(T* rows, int step_stride, const Accumulator& left, const Accumulator& right, int block,
                              int valid) const {
    T* origin = rows + (block * 16 * step_stride + first_value);
    store_transposed(origin, step_stride, left, valid - block * 16, columns);
    store_transposed(origin + 8 * step_stride, step_stride, right, valid - block * 16 - 8, columns);
  }
  // Where a chunk's state has the two operand tiles of 16 values and 16 keys.
  __device__ static std::int64_t state_tiles(const Problem<T>& problem, int chunk, int value, int key_block) {
    return problem.chunk_index(blockIdx.x, chunk) * kStateElements<kWidth> +
           (value / 16 * (kWidth / 8) + 2 * key_block) * kOperandTile;
  }
};

// A producer thread's part of rows on their way. Each kernel overlays it with what the other warps keep from phase to
// phase: at a barrier that all reach, the compiler counts the registers of all of them.
struct ProducerRegisters {
  float beta;
  RowRegisters<kProducerThreads> k, q, value;  // used only where narrow rows are aligned to 4 bytes
};

// The producer warps' side of one block.
template <bool kReverse, int kStages, typename Rule, typename T, int kWidth, bool kReads>
struct Producer {
  using StageOf = Stage<Rule, T, kWidth, kReads>;
  static constexpr int kSize = kChunk<T>, kVector = kRowStride<kWidth>;
  const Problem<T>& problem;
  const ValueRows<T>& values;
  const Prepared<T>& prepared;
  StageOf* stages;
  typename Problem<T>::Pair at;
  int first_chunk, chunks, first_value, columns, thread;

  ProducerRegisters& own;

  __device__ int chunk_at(int i) const { return first_chunk + (kReverse ? chunks - 1 - i : i); }
  __device__ StageOf& stage(int i) const { return stages[i % kStages]; }
  __device__ int begin(int i) const { return chunk_at(i) * kSize; }
  __device__ int valid(int i) const { return min(kSize, at.length - begin(i)); }
  __device__ std::int64_t value_offset(int i) const {
    return (static_cast<std::int64_t>(at.row) * problem.time + begin(i)) * values.row_stride + at.head * problem.width +
           first_value;
  }

  // Starts the asynchronous copies of the i-th chunk of the walk, as one group, empty past the end.
  __device__ void copy(int i) {
    if (i < chunks) {
      const std::int64_t offset = problem.strided(at, begin(i));
      if (problem.copy_bytes > 4) {
        copy_rows_async<kWidth, kProducerThreads>(stage(i).k, kVector, problem.k + offset, problem.row_stride, valid(i),
                                                  problem.width, problem.copy_bytes, thread);
        if constexpr (kReads)
          copy_rows_async<kWidth, kProducerThreads>(stage(i).q, kVector, problem.q + offset, problem.row_stride,
                                                    valid(i), problem.width, problem.copy_bytes, thread);
      }
      if (values.copy_bytes > 4)
        copy_rows_async<16 * kMaxSlices, kProducerThreads>(stage(i).value, kValueStride, values.data + value_offset(i),
                                                           values.row_stride, valid(i), columns, values.copy_bytes,
                                                           thread);
      const std::int64_t chunk = problem.chunk_index(blockIdx.x, chunk_at(i));
      if constexpr (Rule::kDelta)
        copy_flat<kProducerThreads>(&stage(i).triangles.solve[0][0], &prepared.triangles[chunk].solve[0][0],
                                    static_cast<int>(sizeof(stage(i).triangles) / sizeof(T)), thread);
      else if constexpr (kReads)
        copy_flat<kProducerThreads>(stage(i).triangles.attend, prepared.triangles[chunk].attend,
                                    Triangles<T>::kElements, thread);
      if constexpr (Rule::kDecay) {
        static_assert(offsetof(Decays<T>, high) == sizeof(StageDecays<T, true>));
        copy_flat<kProducerThreads>(stage(i).from_start, prepared.decays[chunk].from_start, 2 * kSize, thread);
      }
    }
    commit_copies();
  }
  // What goes through registers, in two halves so that the loads are under way while others compute.
  static constexpr bool kEarly = sizeof(T) == 2 && kWidth == 64;
  __device__ void load(int i) {
    if (i >= chunks) return;
    if (thread < kSize)
      own.beta = thread < valid(i) ? static_cast<float>(problem.beta[problem.scalar(at, begin(i) + thread)]) : 0.0f;
    if constexpr (kEarly) {
      const std::int64_t offset = problem.strided(at, begin(i));
      if (problem.copy_bytes == 4) {
        own.k.load(problem.k + offset, problem.row_stride, valid(i), problem.width, thread);
        if constexpr (kReads) own.q.load(problem.q + offset, problem.row_stride, valid(i), problem.width, thread);
      }
      if (values.copy_bytes == 4)
        own.value.load(values.data + value_offset(i), values.row_stride, valid(i), columns, thread);
    }
  }
  __device__ void store(int i) {
    if (i >= chunks) return;
    if (thread < kSize) stage(i).beta[thread] = own.beta;
    if constexpr (kEarly) {
      if (problem.copy_bytes == 4) {
        own.k.store(stage(i).k, kVector, valid(i), problem.width, thread);
        if constexpr (kReads) own.q.store(stage(i).q, kVector, valid(i), problem.width, thread);
      }
      if (values.copy_bytes == 4) own.value.store(stage(i).value, kValueStride, valid(i), columns, thread);
    } else if constexpr (sizeof(T) == 2) {
      const std::int64_t offset = problem.strided(at, begin(i));
      if (problem.copy_bytes == 4) {
        copy_pairs<kWidth, kProducerThreads>(stage(i).k, kVector, problem.k + offset, problem.row_stride, valid(i),
                                             problem.width, thread);
        if constexpr (kReads)
          copy_pairs<kWidth, kProducerThreads>(stage(i).q, kVector, problem.q + offset, problem.row_stride, valid(i),
                                               problem.width, thread);
      }
      if (values.copy_bytes == 4)
        copy_pairs<16 * kMaxSlices, kProducerThreads>(stage(i).value, kValueStride, values.data + value_offset(i),
                                                      values.row_stride, valid(i), columns, thread);
    }
  }
};

// Calls read(stage, chunk), solve(stage, chunk) and write(stage, chunk) in the warps that work on a slice, for the
// chunks of a segment from the first or, reversed, from the last. What was written to shared memory in one phase may be
// read in the next. With three stages a chunk's write and the next chunk's read are one phase.
template <bool kReverse, int kStages, typename Rule, typename T, int kWidth, bool kReads, int kParts, typename Read,
          typename Solve, typename Write>
__device__ void for_each_chunk(const Problem<T>& problem, const ValueRows<T>& values, const Prepared<T>& prepared,
                               Stage<Rule, T, kWidth, kReads>* stages, ProducerRegisters& registers,
                               const SliceWarp<T, kWidth, kParts>& walk, int segment, const Read& read,
                               const Solve& solve, const Write& write) {
  const auto at = problem.pair(blockIdx.x);
  const auto [first_chunk, chunks] = problem.chunks_of(at, segment);
  const int slice_threads = blockDim.x - kProducerThreads;
  const int columns = min(problem.width - walk.block_value, 16 * walk.slices);
  const bool produces = static_cast<int>(threadIdx.x) >= slice_threads;
  Producer<kReverse, kStages, Rule, T, kWidth, kReads> producer{
      problem,     values, prepared,         stages,  at,
      first_chunk, chunks, walk.block_value, columns, static_cast<int>(threadIdx.x) - slice_threads,
      registers};
  const auto run = [&](const auto& phase, int i) {
    if (walk.works) phase(stages[i % kStages], producer.chunk_at(i));
  };
  constexpr int kPending = kStages > 1 ? kStages - 2 : 0;
  if (kStages > 1 && produces) {
    for (int i = 0; i < kStages - 1; ++i) producer.copy(i);
    producer.load(0);
    producer.store(0);
    producer.load(1);
    wait_for_groups<kPending>();
  }
  if constexpr (kStages > 2) {
    for (int i = 0; i <= chunks; ++i) {
      __syncthreads();
      if (produces) {
        producer.store(i + 1);
        producer.load(i + 2);
      }
      if (i > 0) run(write, i - 1);
      if (i == chunks) break;
      run(read, i);
      __syncthreads();
      if (produces) producer.copy(i + kStages - 1);
      run(solve, i);
      if (produces) wait_for_groups<kPending>();
    }
  } else {
    for (int i = 0; i < chunks; ++i) {
      __syncthreads();
      if (produces) {
        if (kStages > 1) {
          producer.copy(i + 1);
          producer.store(i + 1);
          producer.load(i + 2);
        } else {
          producer.load(i);
          producer.copy(i);
          producer.store(i);
          wait_for_groups<0>();
        }
      }
      if (kStages == 1) __syncthreads();
      run(read, i);
      __syncthreads();
      run(solve, i);
      __syncthreads();
      run(write, i);
      if (produces) wait_for_groups<0>();
    }
  }
}

// How a recurrence is launched: with kMostStages where shared memory holds them, else one; as many slices a block as
// keep the multiprocessors busy. `exchange_bytes`: what a slice's two warps exchange.
template <int kWidth>
constexpr int kMostStages = kWidth == 64 ? 3 : 2;

// Whether a slice may have four warps: where two have much to do.
template <typename T, int kWidth>
constexpr bool kSharesSlice = sizeof(T) == 2 && kWidth == 128;
template <int kParts>
constexpr int kMostThreads = kParts == 2 ? kRecurrenceThreads : 128 + kProducerThreads;

struct RecurrenceLaunch {
  dim3 grid;
  int threads, stages;
  std::size_t bytes;

  template <typename Rule, typename T, int kWidth>
  static RecurrenceLaunch of(const Problem<T>& problem, std::size_t exchange_bytes) {
    const int pairs = problem.batch * problem.heads, tiles = (problem.width + 15) / 16;
    const int chains = pairs * problem.segments.count;
    const int multiprocessors = cuda_device_attribute(cudaDevAttrMultiProcessorCount);
    const std::size_t most = cuda_device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    int slices = std::min(tiles, kMaxSlices);
    while (slices > 1 && chains * ((tiles + (slices + 1) / 2 - 1) / ((slices + 1) / 2)) <= multiprocessors)
      slices = (slices + 1) / 2;
    const auto bytes = [&](int stages) { return stages * sizeof(Stage<Rule, T, kWidth>) + slices * exchange_bytes; };
    while (slices > 1 && bytes(1) > most) slices = (slices + 1) / 2;
    const int stages = bytes(kMostStages<kWidth>) <= most ? kMostStages<kWidth> : 1;
    return {dim3(pairs, (tiles + slices - 1) / slices, problem.segments.count), 64 * slices + kProducerThreads, stages,
            bytes(stages)};
  }
  // Where a block has one slice, and shared memory allows it: four warps for it, and three stages.
  template <typename Rule, typename T, int kWidth>
  bool share_slice(std::size_t exchange_bytes) {
    const std::size_t shared = 3 * sizeof(Stage<Rule, T, kWidth>) + exchange_bytes;
    if (threads != 64 + kProducerThreads ||
        shared > static_cast<std::size_t>(cuda_device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)))
      return false;
    threads = 128 + kProducerThreads, stages = 3, bytes = shared;
    return true;
  }
};

// A tile [16 values x 8 steps] times a factor of each step.
__device__ inline void scale_steps(Accumulator& x, const float* factor) {
  const float2 f = *reinterpret_cast<const float2*>(factor + 2 * (lane_id() % 4));
  x.x[0] *= f.x, x.x[1] *= f.y, x.x[2] *= f.x, x.x[3] *= f.y;
}

// Two tiles [16 values x 8 steps] beside each other, times beta of their steps, as a left operand.
template <int kCount>
__device__ inline void weigh(FragmentA<kCount>& a, const Accumulator& left, const Accumulator& right, const float* beta,
                             float factor) {
  const int t = lane_id() % 4;
  const float2 b0 = *reinterpret_cast<const float2*>(beta + 2 * t);
  const float2 b1 = *reinterpret_cast<const float2*>(beta + 8 + 2 * t);
  const Accumulator x{
      {left.x[0] * b0.x * factor, left.x[1] * b0.y * factor, left.x[2] * b0.x * factor, left.x[3] * b0.y * factor}};
  const Accumulator y{
      {right.x[0] * b1.x * factor, right.x[1] * b1.y * factor, right.x[2] * b1.x * factor, right.x[3] * b1.y * factor}};
  to_fragment(a, x, y);
}

// The same, times another factor of each step.
template <int kCount>
__device__ inline void weigh_decayed(FragmentA<kCount>& a, const Accumulator& left, const Accumulator& right,
                                     const float* beta, const float* decay, float factor) {
  Accumulator x = left, y = right;
  scale_steps(x, decay);
  scale_steps(y, decay + 8);
  weigh(a, x, y, beta, factor);
}

// A left operand whose rows, or columns, are multiplied by factors; in as many planes as it has.
template <int kCount>
__device__ inline void scale_pair(FragmentA<kCount>& a, int index, float low, float high) {
  float x = 0, y = 0;
#pragma unroll
  for (int p = kCount - 1; p >= 0; --p) x += unpack_low(a.plane[p][index]), y += unpack_high(a.plane[p][index]);
  set_pair(a, index, x * low, y * high);
}
template <int kCount>
__device__ inline void scale_columns(FragmentA<kCount>& a, const float* factor) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 f = *reinterpret_cast<const float2*>(factor + i / 2 * 8 + 2 * (lane_id() % 4));
    scale_pair(a, i, f.x, f.y);
  }
}
template <int kCount>
__device__ inline void scale_rows(FragmentA<kCount>& a, float upper, float lower) {
#pragma unroll
  for (int i = 0; i < 4; ++i) scale_pair(a, i, i % 2 == 0 ? upper : lower, i % 2 == 0 ? upper : lower);
}

// Two right operands, 16 x 8 each, of the block at row and column of -Z, as it is and transposed.
template <typename T>
struct SolveOperand {
  static constexpr int kCount = sizeof(T) == 2 ? kSolveMatrices<T> : kPlanes<T>;
  FragmentB<kCount> tile[2];

  template <bool kTransposed, typename TrianglesOf>
  __device__ void load(const TrianglesOf& triangles, int row, int column) {
    const int block = Triangles<T>::block(row, column);
    if constexpr (sizeof(T) == 2) {
#pragma unroll
      for (int m = 0; m < kCount; ++m) {
        FragmentB<1> part[2];
        if constexpr (kTransposed)
          load_b_block_transposed(part, triangles.solve[m] + block);
        else
          load_b_block(part, triangles.solve[m] + block);
#pragma unroll
        for (int i = 0; i < 4; ++i) tile[i / 2].plane[m][i % 2] = part[i / 2].plane[0][i % 2];
      }
    } else if constexpr (kTransposed) {
      load_b_block_transposed(tile, triangles.solve[0] + block);
    } else {
      load_b_block(tile, triangles.solve[0] + block);
    }
  }
};

}  // namespace engram::delta_rule
