// What the chunked forward and backward kernels share: chunk size, the problem as the device sees it, the layout of
// the saved buffer, and the copy of a chunk's rows to shared memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/delta_rule/delta_rule.h"
#include "kernels/tensor_core.cuh"

namespace engram::delta_rule {

// Steps a chunk. Smaller for float, whose tiles take twice the shared memory.
template <typename T>
constexpr int kChunk = sizeof(T) == 2 ? 64 : 32;

// Elements between rows in shared memory: eight more than a row, which keeps 16-byte alignment and spreads a
// column's elements over the banks.
template <int kWidth>
constexpr int kRowStride = kWidth + 8;

// Elements of one state in operand tiles, 16 values x 8 keys each, keys fastest.
template <int kWidth>
constexpr std::size_t kStateElements = std::size_t{kWidth} * kWidth;

template <typename T>
struct Problem {
  int batch, time, heads, width, chunks;
  float scale;
  std::int64_t row_stride;
  int copy_bytes;  // 4, 8 or 16: what the alignment of q, k, v allows in one copy
  const T *q, *k, *v, *beta;
  const int* length;

  // The pair of row and head that a block works on, and its length.
  struct Pair {
    int row, head, length;
  };
  __device__ Pair pair(int index) const {
    const int row = index / heads;
    return {row, index % heads, length == nullptr ? time : length[row]};
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

// The parts of the saved buffer, in elements of T from its start; the scratch of a forward pass that keeps nothing
// has the first two. README.md names the matrices.
struct SavedLayout {
  std::size_t solve, attend, state, error, forward_elements, elements;

  template <typename T>
  static SavedLayout of(const DeltaRuleShape& shape, int padded_width) {
    const auto round_up = [](std::size_t size) { return (size + 127) / 128 * 128; };
    const std::size_t pairs = static_cast<std::size_t>(shape.batch) * shape.heads;
    const std::size_t chunks = (shape.time + kChunk<T> - 1) / kChunk<T>;
    const std::size_t square = pairs * chunks * kChunk<T> * kChunk<T>;
    SavedLayout layout{};
    layout.solve = 0;
    layout.attend = square;
    layout.state = layout.forward_elements = 2 * square;
    layout.error = layout.state + pairs * chunks * padded_width * padded_width;
    layout.elements = layout.error + round_up(pairs * shape.time * shape.width);
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
}

inline void check_input(const DeltaRuleInput& input) {
  check_shape(input.shape);
  if (!(input.scale > 0)) throw std::runtime_error("delta rule: scale " + std::to_string(input.scale) + " is not > 0");
  if (input.row_stride % 2 != 0 || input.row_stride < std::int64_t{input.shape.heads} * input.shape.width)
    throw std::runtime_error("delta rule: row stride " + std::to_string(input.row_stride) +
                             " is odd or less than heads x width");
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
  return {s.batch, s.time, s.heads, s.width, (s.time + kChunk<T> - 1) / kChunk<T>, input.scale, input.row_stride,
          copy_bytes<T>({input.q_BTHD, input.k_BTHD, input.v_BTHD}, input.row_stride, s.width),
          static_cast<const T*>(input.q_BTHD), static_cast<const T*>(input.k_BTHD),
          static_cast<const T*>(input.v_BTHD), static_cast<const T*>(input.beta_BTH), input.length_B};
}

// Calls function(T{}, width constant) for the element type and the padded width.
template <int kValue>
struct Width {
  static constexpr int value = kValue;
};
template <typename Function>
void dispatch(Dtype dtype, int width, Function&& function) {
  dispatch_dtype(dtype, [&](auto element) {
    if (width <= 64)
      function(element, Width<64>{});
    else
      function(element, Width<128>{});
  });
}

// Launches with `bytes` of dynamic shared memory and checks the launch.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, std::size_t bytes, cudaStream_t stream,
            const char* name, const Arguments&... arguments) {
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), name);
  kernel<<<grid, threads, bytes, stream>>>(arguments...);
  check_cuda(cudaGetLastError(), name);
}

// ---- device side ----

template <int kBytes, typename T>
__device__ inline void copy_rows_by(T* shared, int shared_stride, const T* global, std::int64_t global_stride,
                                    int valid_rows, int rows, int columns, int thread, int threads) {
  constexpr int kElements = kBytes / sizeof(T) > 0 ? kBytes / sizeof(T) : 1;
  const int pieces = columns / kElements;
  const int lanes = pieces <= 4 ? 4 : pieces <= 8 ? 8 : pieces <= 16 ? 16 : 32;
  const int first = thread % lanes;
  for (int row = thread / lanes; row < rows; row += threads / lanes)
    for (int piece = first; piece < pieces; piece += lanes)
      copy_async<kBytes>(shared + row * shared_stride + piece * kElements,
                         row < valid_rows ? global + row * global_stride + piece * kElements : global,
                         row < valid_rows);
}

// Starts the copy of `rows` rows of `columns` elements; rows from valid_rows on become zero.
template <typename T>
__device__ inline void copy_rows(T* shared, int shared_stride, const T* global, std::int64_t global_stride,
                                 int valid_rows, int rows, int columns, int bytes, int thread, int threads) {
  if (bytes == 16)
    copy_rows_by<16>(shared, shared_stride, global, global_stride, valid_rows, rows, columns, thread, threads);
  else if (bytes == 8)
    copy_rows_by<8>(shared, shared_stride, global, global_stride, valid_rows, rows, columns, thread, threads);
  else if constexpr (sizeof(T) == 2)
    copy_rows_by<4>(shared, shared_stride, global, global_stride, valid_rows, rows, columns, thread, threads);
}

// Starts the copy of a chunk's lower triangle, in blocks of 16 x 16: what lies above is never read.
template <typename T>
__device__ inline void copy_triangle(T* shared, const T* global, int thread, int threads) {
  constexpr int kElements = 16 / sizeof(T), kPieces = kChunk<T> / kElements;
  for (int i = thread; i < kChunk<T> * kPieces; i += threads) {
    const int row = i / kPieces, column = i % kPieces * kElements;
    if (column <= (row | 15))
      copy_async<16>(shared + row * kRowStride<kChunk<T>> + column, global + row * kChunk<T> + column, true);
  }
}

// Zeroes the columns that pad a row.
template <typename T>
__device__ inline void zero_columns(T* shared, int stride, int rows, int begin, int end, int thread, int threads) {
  const int count = end - begin;
  for (int i = thread; i < rows * count; i += threads) shared[i / count * stride + begin + i % count] = T(0.0f);
}

template <typename T>
__device__ inline void load_beta(float* shared, const Problem<T>& problem, const typename Problem<T>::Pair& at,
                                 int begin, int thread, int threads) {
  for (int i = thread; i < kChunk<T>; i += threads)
    shared[i] = begin + i < at.length ? static_cast<float>(problem.beta[problem.scalar(at, begin + i)]) : 0.0f;
}

}  // namespace engram::delta_rule
