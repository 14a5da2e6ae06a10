// What the chunked forward and backward kernels share: chunk size, the problem as the device sees it, the layout of
// the saved buffer, and the copy of a chunk's rows to shared memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/common/launch.cuh"
#include "kernels/common/tensor_core.cuh"
#include "kernels/fast_weights/delta_rule/delta_rule.h"
#include "kernels/fast_weights/delta_rule/rule.h"

namespace engram::delta_rule {

// Steps a chunk. Smaller for float, whose tiles take twice the shared memory.
template <typename T>
constexpr int kChunk = sizeof(T) == 2 ? 64 : 32;

// Elements between rows in shared memory: eight more than a row, which keeps 16-byte alignment and spreads a
// column's elements over the banks.
template <int kWidth>
constexpr int kRowStride = kWidth + 8;

// Planes of operands that are sums in float and act on the recurrence, whose errors the next steps would carry on:
// bfloat16 sequences too keep 16 bits there.
template <typename T>
constexpr int kSumPlanes = sizeof(T) == 2 ? 2 : 3;

// Matrices of T that hold Z: for bfloat16 the sum of two.
template <typename T>
constexpr int kSolveMatrices = sizeof(T) == 2 ? 2 : 1;

// A chunk's lower triangular matrices as their 16 x 16 blocks (load_b_block), row by row up to the diagonal: -Z, whose
// bfloat16 matrices add up, and P.
template <typename T>
struct Triangles {
  static constexpr int kRows = kChunk<T> / 16, kBlock = 256, kElements = kRows * (kRows + 1) / 2 * kBlock;
  T solve[kSolveMatrices<T>][kElements];
  T attend[kElements];

  __host__ __device__ static constexpr int block(int row, int column) {
    return (row * (row + 1) / 2 + column) * kBlock;
  }
};

// What of them a walk takes that reads the memory, and one that only writes to it.
template <typename T>
struct SolveTriangles {
  T solve[kSolveMatrices<T>][Triangles<T>::kElements];
};
template <typename T, bool kReads>
using TrianglesOf = std::conditional_t<kReads, Triangles<T>, SolveTriangles<T>>;

// Calls function(rule, T{}, width constant).
template <typename Function>
void dispatch(const DeltaRuleInput& input, Function&& function) {
  dispatch_width(input.dtype, input.shape.width, [&](auto element, auto width) {
    dispatch_rule(input.write, input.log_decay_BTH != nullptr, [&](auto rule) { function(rule, element, width); });
  });
}

// Of a chunk's steps, with c_i the sum of the logarithms of decays up to and with step i of the chunk; past the length
// nothing decays. c is the sum of two floats: what counts are differences, and those of neighbours must not suffer from
// what decayed long before.
template <typename T>
struct Decays {
  float from_start[kChunk<T>];  // exp(c_i)
  float to_end[kChunk<T>];      // exp(c_last - c_i)
  float high[kChunk<T>], low[kChunk<T>];
};

// What launch_prepare computes of each chunk; decays only of a rule that has them.
template <typename T>
struct Prepared {
  const Triangles<T>* triangles;
  const Decays<T>* decays;
};

// The decays between rows g and g + 8 of a block of 16 steps and the columns, the steps of another block, in the layout
// of two accumulators: a lane's sums of its own rows are read once, those of columns in pairs.
struct RowDecays {
  float high[2], low[2];

  template <typename T>
  __device__ RowDecays(const Decays<T>& decays, int first_row) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      high[half] = decays.high[first_row + lane_id() / 4 + 8 * half];
      low[half] = decays.low[first_row + lane_id() / 4 + 8 * half];
    }
  }
  // exp(c_row - c_column), or, where rows are the earlier steps, exp(c_column - c_row). Never above 1 where that is so;
  // elsewhere anything, which must be masked.
  template <bool kRowsAreLater, typename T>
  __device__ void to_columns(Accumulator (&factor)[2], const Decays<T>& decays, int first_column) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = first_column + i * 8 + 2 * (lane_id() % 4);
      const float2 column_high = load_pair(decays.high + column), column_low = load_pair(decays.low + column);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float difference = (high[e / 2] - (e % 2 == 0 ? column_high.x : column_high.y)) +
                                 (low[e / 2] - (e % 2 == 0 ? column_low.x : column_low.y));
        factor[i].x[e] = __expf(kRowsAreLater ? difference : -difference);
      }
    }
  }
};

// Elements of one state in operand tiles, 16 values x 8 keys each, keys fastest.
template <int kWidth>
constexpr std::size_t kStateElements = std::size_t{kWidth} * kWidth;

// How a sequence's chunks are cut into segments that are walked beside each other (README.md, "In segments").
struct Segments {
  int count, chunks;  // chunks: of every segment but the last, which may have fewer

  // The shape's own number, or where it names none what was measured to pay (README.md): one, unless in bfloat16 the
  // pairs of row and head are few and long. By the shape alone, so that the sizes of buffers and the results depend on
  // no device.
  template <typename T>
  static Segments of(const DeltaRuleShape& shape) {
    constexpr std::int64_t kMostPairs = 8, kMostChains = 64;  // chains: pairs times segments
    constexpr int kFewestChunks = 8, kFewestSegments = 4;     // of a segment, of a sequence
    const int chunks = (shape.time + kChunk<T> - 1) / kChunk<T>;
    std::int64_t count = shape.segments;
    if (count == 0) {
      const std::int64_t pairs = std::int64_t{shape.batch} * shape.heads;
      count = std::min<std::int64_t>(kMostChains / pairs, chunks / kFewestChunks);
      if (sizeof(T) == 4 || pairs > kMostPairs || count < kFewestSegments) count = 1;
    }
    const int length = static_cast<int>((chunks + count - 1) / count);
    return {(chunks + length - 1) / length, length};
  }
};

template <typename T>
struct Problem {
  int batch, time, heads, width, chunks;
  float scale;
  std::int64_t row_stride;
  int copy_bytes;  // 4, 8 or 16: the largest piece that the alignment of q, k, v allows
  const T *q, *k, *v, *beta;
  const int* length;
  const float* log_decay;
  Segments segments;

  // The pair of row and head that a block works on, and its length.
  struct Pair {
    int row, head, length;
  };
  __device__ Pair pair(int index) const {
    const int row = index / heads;
    return {row, index % heads, length == nullptr ? time : length[row]};
  }
  // A segment's chunks that are before the pair's length.
  struct Chunks {
    int first, count;
  };
  __device__ Chunks chunks_of(const Pair& at, int segment) const {
    const int all = (at.length + kChunk<T> - 1) / kChunk<T>, first = segment * segments.chunks;
    return {first, max(0, min(all - first, segments.chunks))};
  }
  // Offset of (row, t, head) in q, k, v and in contiguous [B, T, H, D].
  __device__ std::int64_t strided(const Pair& at, int t) const {
    return (static_cast<std::int64_t>(at.row) * time + t) * row_stride + static_cast<std::int64_t>(at.head) * width;
  }
  __device__ std::int64_t contiguous(const Pair& at, int t) const { return scalar(at, t) * width; }
  __device__ std::int64_t scalar(const Pair& at, int t) const {
    return (static_cast<std::int64_t>(at.row) * time + t) * heads + at.head;
  }
  __device__ std::int64_t chunk_index(int pair_index, int chunk) const {
    return static_cast<std::int64_t>(pair_index) * chunks + chunk;
  }
};

// The parts of the saved buffer, in elements of T from its start: the chunks' triangles, states at the chunks' starts,
// errors, decays, and what joins segments.
struct SavedLayout {
  std::size_t state, error, decay, joints, elements;
  std::size_t joint_elements;  // that hold a float state of each pair's segments but one; the joints are three of these

  template <typename T>
  static SavedLayout of(const DeltaRuleShape& shape, int padded_width) {
    const auto round_up = [](std::size_t size) { return (size + 127) / 128 * 128; };
    const std::size_t pairs = static_cast<std::size_t>(shape.batch) * shape.heads;
    const std::size_t chunks = (shape.time + kChunk<T> - 1) / kChunk<T>;
    SavedLayout layout{};
    layout.state = pairs * chunks * sizeof(Triangles<T>) / sizeof(T);
    layout.error = layout.state + pairs * chunks * padded_width * padded_width;
    layout.decay = layout.error + round_up(pairs * shape.time * shape.width);
    layout.joints = layout.decay + pairs * chunks * sizeof(Decays<T>) / sizeof(T);
    layout.joint_elements =
        pairs * (Segments::of<T>(shape).count - 1) * padded_width * padded_width * sizeof(float) / sizeof(T);
    layout.elements = layout.joints + 3 * layout.joint_elements;
    return layout;
  }
};

inline int padded_width(int width) { return width <= 64 ? 64 : 128; }

inline void check_shape(const DeltaRuleShape& shape) {
  const auto refuse = [](const std::string& what) { throw std::runtime_error("delta rule: " + what); };
  if (shape.width < 2 || shape.width > 128 || shape.width % 2 != 0)
    refuse("head width " + std::to_string(shape.width) + " is not an even number from 2 to 128");
  if (shape.batch < 1 || shape.time < 1 || shape.heads < 1)
    refuse("batch, time and heads must be at least 1, got " + std::to_string(shape.batch) + ", " +
           std::to_string(shape.time) + ", " + std::to_string(shape.heads));
  if (shape.segments < 0) refuse("segments must not be negative, got " + std::to_string(shape.segments));
}

// Offsets inside a chunk are 32-bit.
constexpr std::int64_t kMaxRowStride = 1 << 24;

inline void check_input(const DeltaRuleInput& input) {
  check_shape(input.shape);
  if (!(input.scale > 0)) throw std::runtime_error("delta rule: scale " + std::to_string(input.scale) + " is not > 0");
  if (input.row_stride % 2 != 0 || input.row_stride < std::int64_t{input.shape.heads} * input.shape.width ||
      input.row_stride > kMaxRowStride)
    throw std::runtime_error("delta rule: row stride " + std::to_string(input.row_stride) +
                             " is odd, less than heads x width, or more than " + std::to_string(kMaxRowStride));
}

// The largest copy that every row's start allows.
template <typename T>
int copy_bytes(std::initializer_list<const void*> pointers, std::int64_t row_stride, int width) {
  std::uintptr_t bits = static_cast<std::uintptr_t>(row_stride) * sizeof(T) | width * sizeof(T);
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : 4;
}

template <typename T>
Problem<T> make_problem(const DeltaRuleInput& input) {
  const DeltaRuleShape& s = input.shape;
  return {s.batch,
          s.time,
          s.heads,
          s.width,
          (s.time + kChunk<T> - 1) / kChunk<T>,
          input.scale,
          input.row_stride,
          copy_bytes<T>({input.q_BTHD, input.k_BTHD, input.v_BTHD}, input.row_stride, s.width),
          static_cast<const T*>(input.q_BTHD),
          static_cast<const T*>(input.k_BTHD),
          static_cast<const T*>(input.v_BTHD),
          static_cast<const T*>(input.beta_BTH),
          input.length_B,
          input.log_decay_BTH,
          Segments::of<T>(s)};
}

// Starts the copy of a chunk's rows in pieces of kBytes. Rows from valid_rows on, and columns from `columns` to
// kPadded, become zero.
template <int kBytes, int kPadded, int kThreads, typename T>
__device__ inline void copy_rows_by(T* shared, int shared_stride, const T* global, std::int64_t global_stride,
                                    int valid_rows, int columns, int thread) {
  constexpr int kElements = kBytes / sizeof(T), kLanes = kPadded / kElements, kRows = kThreads / kLanes;
  const int column = thread % kLanes * kElements, row = thread / kLanes;
  const T* source = global + row * global_stride + column;
  shared += row * shared_stride + column;
  const int inside_rows = column < columns ? valid_rows - row : 0;
#pragma unroll 8
  for (int i = 0; i < kChunk<T>; i += kRows) {
    const bool inside = i < inside_rows;
    copy_async<kBytes>(shared + i * shared_stride, inside ? source : global, inside);
    source += kRows * global_stride;
  }
}

// The same in pieces of 8 or 16 bytes.
template <int kPadded, int kThreads, typename T>
__device__ inline void copy_rows_async(T* shared, int shared_stride, const T* global, std::int64_t global_stride,
                                       int valid_rows, int columns, int bytes, int thread) {
  if (bytes == 16)
    copy_rows_by<16, kPadded, kThreads>(shared, shared_stride, global, global_stride, valid_rows, columns, thread);
  else
    copy_rows_by<8, kPadded, kThreads>(shared, shared_stride, global, global_stride, valid_rows, columns, thread);
}

// A chunk's bfloat16 rows, at most 64 wide, on their way through the registers of kThreads threads, in pairs: for rows
// that are aligned to 4 bytes only, where asynchronous copies are slow.
template <int kThreads>
struct RowRegisters {
  static constexpr int kWarps = kThreads / 32, kRows = kChunk<bf16> / kWarps;
  std::uint32_t pair[kRows];

  // Starts the loads; a place outside is read elsewhere.
  __device__ void load(const bf16* global, std::int64_t stride, int valid_rows, int columns, int thread) {
    const bf16* row = global + thread / 32 * stride;
#pragma unroll
    for (int i = 0; i < kRows; ++i, row += kWarps * stride) {
      const bool inside = thread / 32 + kWarps * i < valid_rows && 2 * (thread % 32) < columns;
      pair[i] = *reinterpret_cast<const std::uint32_t*>(inside ? row + 2 * (thread % 32) : global);
    }
  }
  // Writes what lies inside, and zeros outside, padding included. Only here is a loaded value looked at, so that what
  // stands between load and store overlaps the loads.
  __device__ void store(bf16* shared, int stride, int valid_rows, int columns, int thread) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = thread / 32 + kWarps * i, column = 2 * (thread % 32);
      *reinterpret_cast<std::uint32_t*>(shared + row * stride + column) =
          row < valid_rows && column < columns ? pair[i] : 0u;
    }
  }
};

// The same for wider rows, a few at a time: all would take too many registers.
template <int kPadded, int kThreads>
__device__ inline void copy_pairs(bf16* shared, int shared_stride, const bf16* global, std::int64_t global_stride,
                                  int valid_rows, int columns, int thread) {
#pragma unroll 4
  for (int i = thread; i < kChunk<bf16> * kPadded / 2; i += kThreads) {
    const int row = i / (kPadded / 2), column = 2 * (i % (kPadded / 2));
    const bool inside = row < valid_rows && column < columns;
    const std::uint32_t x =
        *reinterpret_cast<const std::uint32_t*>(global + (inside ? row * global_stride + column : 0));
    *reinterpret_cast<std::uint32_t*>(shared + row * shared_stride + column) = inside ? x : 0u;
  }
}

// Rows of one tensor on their way to shared memory.
template <typename T>
struct RowCopy {
  T* shared;
  const T* global;
  std::int64_t global_stride;
  int bytes;
};

// Copies a chunk's rows of several tensors, and zeroes what pads them, with kThreads threads; complete after the
// asynchronous copies and a barrier. Narrow rows that go through registers are all loaded before the first is awaited.
template <int kWidth, int kThreads, int kTensors, typename T>
__device__ inline void copy_rows(const RowCopy<T> (&copies)[kTensors], int valid_rows, int columns, int thread) {
  constexpr int kStride = kRowStride<kWidth>;
#pragma unroll
  for (const RowCopy<T>& copy : copies)
    if (sizeof(T) == 4 || copy.bytes > 4)
      copy_rows_async<kWidth, kThreads>(copy.shared, kStride, copy.global, copy.global_stride, valid_rows, columns,
                                        copy.bytes, thread);
  if constexpr (sizeof(T) == 2 && kWidth == 64) {
    RowRegisters<kThreads> registers[kTensors];
#pragma unroll
    for (int i = 0; i < kTensors; ++i)
      if (copies[i].bytes == 4)
        registers[i].load(copies[i].global, copies[i].global_stride, valid_rows, columns, thread);
#pragma unroll
    for (int i = 0; i < kTensors; ++i)
      if (copies[i].bytes == 4) registers[i].store(copies[i].shared, kStride, valid_rows, columns, thread);
  } else if constexpr (sizeof(T) == 2) {
    for (const RowCopy<T>& copy : copies)
      if (copy.bytes == 4)
        copy_pairs<kWidth, kThreads>(copy.shared, kStride, copy.global, copy.global_stride, valid_rows, columns,
                                     thread);
  }
}

// Starts the copy of whole 16-byte pieces of `size` elements.
template <int kThreads, typename T>
__device__ inline void copy_flat(T* shared, const T* global, int size, int thread) {
  constexpr int kElements = 16 / sizeof(T);
#pragma unroll 4
  for (int i = thread * kElements; i < size; i += kThreads * kElements) copy_async<16>(shared + i, global + i, true);
}

template <typename T>
__device__ inline void load_beta(float* shared, const Problem<T>& problem, const typename Problem<T>::Pair& at,
                                 int begin, int thread, int threads) {
  for (int i = thread; i < kChunk<T>; i += threads)
    shared[i] = begin + i < at.length ? static_cast<float>(problem.beta[problem.scalar(at, begin + i)]) : 0.0f;
}

}  // namespace engram::delta_rule
