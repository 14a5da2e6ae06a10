// The problem as the kernels over whole sequences see it: who sees whom, what the forward pass keeps, and the checks of
// what callers pass.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/attention/rotary.cuh"
#include "kernels/common/tensor_core.cuh"

namespace engram::attention {

// Queries, and keys, of a block; a warp owns 16 rows. Smaller for float, whose rows take twice the shared memory.
template <typename T>
constexpr int kBlock = sizeof(T) == 2 ? 64 : 32;
template <typename T>
constexpr int kThreads = kBlock<T> * 2;

// Elements between rows in shared memory: eight more than a row, which keeps 16-byte alignment and spreads a
// column's elements over the banks.
template <int kWidth>
constexpr int kStride = kWidth + 8;
template <typename T, int kWidth>
constexpr int kTile = kBlock<T>* kStride<kWidth>;  // elements of a block in shared memory

constexpr float kLog2E = 1.4426950408889634f;

inline int padded_width(int width) { return width <= 64 ? 64 : 128; }

template <typename T>
struct Problem {
  static constexpr int kBlockShift = sizeof(T) == 2 ? 6 : 5;
  int batch, time, heads, width, window;
  bool chunked;
  float scale;
  int copy_bytes;  // 4, 8 or 16: the largest piece that the alignment of q, k, v allows
  std::int64_t head_stride, q_stride, k_stride, v_stride;
  const T *q, *k, *v;
  const std::int64_t* length;
  DropoutKey dropout;
  Frequencies frequencies;

  // The row and head that a block works on.
  struct Head {
    int row, head, length;
  };
  __device__ Head head(int index) const {
    const int row = index / heads;
    return {row, index % heads, length == nullptr ? time : static_cast<int>(length[row])};
  }
  // Offset of (row, t, head) in rows of `row_stride`, in contiguous [B, T, H, W], and in [B, H, T].
  __device__ std::int64_t strided(const Head& at, int t, std::int64_t row_stride, std::int64_t stride) const {
    return (static_cast<std::int64_t>(at.row) * time + t) * row_stride + at.head * stride;
  }
  __device__ std::int64_t contiguous(const Head& at, int t) const {
    return strided(at, t, static_cast<std::int64_t>(heads) * width, width);
  }
  __device__ std::int64_t scalar(const Head& at, int t) const {
    return (static_cast<std::int64_t>(at.row) * heads + at.head) * time + t;
  }
  // Whether any, and whether each, of the queries t .. t + queries - 1 sees any, and each, of the keys from u on. In
  // chunks the first may be true in vain, as are the blocks below.
  __device__ bool any_sees(int t, int queries, int u, int keys) const {
    return u < t + queries && u + keys > t - window + 1;
  }
  __device__ bool all_see(int t, int queries, int u, int keys) const {
    return u + keys <= t + 1 && u > t + queries - 1 - window && (!chunked || u >= first_key(t + queries - 1));
  }
  // The first key that query t sees.
  __device__ int first_key(int t) const { return chunked ? t - t % window : max(t - window + 1, 0); }
  // Puts -infinity in place of the scores of what queries do not see: element e, of two accumulators beside each other,
  // of the queries t .. t + 15 and keys u .. u + 15; kTransposed: of keys (rows) and queries. Before the
  // sequence (u < 0) stand no keys.
  template <bool kTransposed>
  __device__ void mask(Accumulator (&score)[2], int t, int u) const {
    if (chunked) mask_other_chunks<kTransposed>(score, t, u);
    if (u + 15 <= t && u > t + 15 - window && u >= 0) return;
    const int row = lane_id() / 4, column = lane_id() % 4 * 2;
    const int distance = t - u + (kTransposed ? column - row : row - column);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int to_row = e / 2 % 2 * 8, to_column = e / 4 * 8 + e % 2;
      if (u < 0 || static_cast<unsigned>(distance + (kTransposed ? to_column - to_row : to_row - to_column)) >=
                       static_cast<unsigned>(window))
        score[e / 4].x[e % 4] = -INFINITY;
    }
  }
  template <bool kTransposed>
  __device__ void mask_other_chunks(Accumulator (&score)[2], int t, int u) const {
    if (u >= first_key(t + 15)) return;
    const int row = lane_id() / 4, column = lane_id() % 4 * 2;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int to_row = e / 2 % 2 * 8, to_column = e / 4 * 8 + e % 2;
      const int own_row = row + to_row, own_column = column + to_column;
      if (u + (kTransposed ? own_row : own_column) < first_key(t + (kTransposed ? own_column : own_row)))
        score[e / 4].x[e % 4] = -INFINITY;
    }
  }
  // The first key block that queries from t on see, and the last query block that sees keys up to u.
  __device__ int first_key_block(int t) const { return max(t - window + 1, 0) >> kBlockShift; }
  __device__ int last_query_block(const Head& at, int u) const {
    return min(static_cast<std::int64_t>(u) + window, static_cast<std::int64_t>(at.length)) - 1 >> kBlockShift;
  }
};

// Which weights of a block of queries and keys dropout keeps, a bit each: word [query][key / 32].
template <typename T>
struct alignas(16) KeptWeights {
  static constexpr int kWords = kBlock<T> / 32;  // of a query
  std::uint32_t word[kBlock<T>][kWords];

  __device__ void copy(const KeptWeights* drawn) {
    constexpr int kPieces = sizeof(KeptWeights) / 16;
    const int i = threadIdx.x % kThreads<T>;
    if (i < kPieces) copy_async<16>(&word[0][0] + 4 * i, &drawn->word[0][0] + 4 * i, true);
  }
  // Counts and numbers the blocks [B, H, query block, key block].
  __host__ __device__ static std::int64_t blocks(int time) { return (time + kBlock<T> - 1) / kBlock<T>; }
  __device__ static std::int64_t index(int time, int head, int t, int u) {
    return (head * blocks(time) + t / kBlock<T>)*blocks(time) + u / kBlock<T>;
  }
};

// What the forward pass keeps for the backward pass: turned queries and keys [B, H, T, padded width], padded with
// zeros, log2(sum over u of exp(s_tu)) [B, H, T], and which weights dropout keeps, of the blocks that see each other.
// Rows at t >= length stay unwritten.
template <typename T>
struct Saved {
  T *q, *k;
  float* log2_sum_exp;
  KeptWeights<T>* kept;

  static std::size_t vector_bytes(const AttentionShape& shape) {
    return sizeof(T) * shape.batch * shape.heads * shape.time * padded_width(shape.width);
  }
  static std::size_t scalar_bytes(const AttentionShape& shape) {
    return (sizeof(float) * shape.batch * shape.heads * shape.time + 15) / 16 * 16;
  }
  static std::size_t kept_bytes(const AttentionShape& shape) {
    const std::size_t blocks = KeptWeights<T>::blocks(shape.time);
    return sizeof(KeptWeights<T>) * shape.batch * shape.heads * blocks * blocks;
  }
  static Saved of(void* saved, const AttentionShape& shape) {
    auto* bytes = static_cast<unsigned char*>(saved);
    if (saved == nullptr) return {};
    const std::size_t size = vector_bytes(shape);
    return {reinterpret_cast<T*>(bytes), reinterpret_cast<T*>(bytes + size), reinterpret_cast<float*>(bytes + 2 * size),
            reinterpret_cast<KeptWeights<T>*>(bytes + 2 * size + scalar_bytes(shape))};
  }
};

// What the backward pass gets and writes besides.
template <typename T>
struct Gradient {
  Saved<T> saved;
  const T *output, *d_output;
  float* mean;  // [B, H, T]: d_output . output, the mean of the weights' gradients
  std::int64_t head_stride, q_stride, k_stride, v_stride;
  T *q, *k, *v;
};

inline void check_shape(const AttentionShape& shape) {
  const auto refuse = [](const std::string& what) { throw std::runtime_error("attention: " + what); };
  if (shape.width < 2 || shape.width > 128 || shape.width % 2 != 0)
    refuse("head width " + std::to_string(shape.width) + " is not an even number from 2 to 128");
  if (shape.batch < 1 || shape.time < 1 || shape.heads < 1)
    refuse("batch, time and heads must be at least 1, got " + std::to_string(shape.batch) + ", " +
           std::to_string(shape.time) + ", " + std::to_string(shape.heads));
}

inline void check_vectors(int rotary_width, int width, float scale, std::initializer_list<std::int64_t> strides) {
  if (rotary_width < 0 || rotary_width > width || rotary_width % 2 != 0)
    throw std::runtime_error("attention: rotary width " + std::to_string(rotary_width) +
                             " is not an even number from 0 to the head width " + std::to_string(width));
  if (!(scale > 0)) throw std::runtime_error("attention: scale " + std::to_string(scale) + " is not > 0");
  for (const std::int64_t stride : strides)
    if (stride % 2 != 0 || stride < 0 || stride > 1 << 24)
      throw std::runtime_error("attention: stride " + std::to_string(stride) + " is not an even number from 0 to 2^24");
}

inline void check_input(const AttentionInput& input) {
  check_shape(input.shape);
  check_vectors(input.rotary_width, input.shape.width, input.scale,
                {input.head_stride, input.q.row_stride, input.k.row_stride, input.v.row_stride});
  if (input.window < 1)
    throw std::runtime_error("attention: window " + std::to_string(input.window) + " is not at least 1");
}

// The largest copy that every row's start allows.
template <typename T>
int copy_bytes(std::initializer_list<const void*> pointers, std::initializer_list<std::int64_t> strides) {
  std::uintptr_t bits = 0;
  for (const std::int64_t stride : strides) bits |= static_cast<std::uintptr_t>(stride) * sizeof(T);
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : 4;
}

template <typename T>
Problem<T> make_problem(const AttentionInput& input) {
  const AttentionShape& s = input.shape;
  return {s.batch,
          s.time,
          s.heads,
          s.width,
          input.window,
          input.chunked,
          input.scale,
          copy_bytes<T>({input.q.data, input.k.data, input.v.data},
                        {input.head_stride, input.q.row_stride, input.k.row_stride, input.v.row_stride, s.width}),
          input.head_stride,
          input.q.row_stride,
          input.k.row_stride,
          input.v.row_stride,
          static_cast<const T*>(input.q.data),
          static_cast<const T*>(input.k.data),
          static_cast<const T*>(input.v.data),
          input.length_B,
          input.dropout,
          make_frequencies(input.rotary_width)};
}

}  // namespace engram::attention
