// What the kernels over whole sequences share: the problem as the device sees it, blocks of rows in shared memory, who
// sees whom, and the launch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/attention/rotary.cuh"
#include "kernels/tensor_core.cuh"

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
  float scale;
  int copy_bytes;  // 4, 8 or 16: the largest piece that the alignment of q, k, v allows
  std::int64_t head_stride, q_stride, k_stride, v_stride;
  const T *q, *k, *v;
  const std::int64_t* length;
  DropoutPlace dropout;
  Frequencies frequencies;
  Dtype ring_dtype;
  int slots;
  const void *past_key, *past_value;
  const std::int64_t* position;  // null: there is no past

  // The row and head that a block works on.
  struct Head {
    int row, head, length, past;  // past: steps of the ring that queries may see
    std::int64_t position;
  };
  __device__ Head head(int index) const {
    const int row = index / heads;
    const std::int64_t before = position == nullptr ? 0 : position[row];
    return {row, index % heads, length == nullptr ? time : static_cast<int>(length[row]),
            static_cast<int>(before < slots ? before : slots), before};
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
  // Whether any of the queries t .. t + 15 sees any of the keys u .. u + 15.
  __device__ bool any_sees(int t, int u) const { return u <= t + 15 && u + 15 > t - window; }
  // Puts -infinity in place of the scores of what queries do not see: element e, of two accumulators beside each other,
  // of the queries t .. t + 15 and keys u .. u + 15; kTransposed: of keys (rows) and queries. Negative steps are past.
  template <bool kTransposed>
  __device__ void mask(Accumulator (&score)[2], const Head& at, int t, int u) const {
    if (u + 15 <= t && u > t + 15 - window && u >= -at.past) return;
    const int row = lane_id() / 4, column = lane_id() % 4 * 2;
    const int distance = t - u + (kTransposed ? column - row : row - column);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int to_row = e / 2 % 2 * 8, to_column = e / 4 * 8 + e % 2;
      if (static_cast<unsigned>(distance + (kTransposed ? to_column - to_row : to_row - to_column)) >=
          static_cast<unsigned>(window))
        score[e / 4].x[e % 4] = -INFINITY;
      if (u < 0 && u + (kTransposed ? row + to_row : column + to_column) < -at.past) score[e / 4].x[e % 4] = -INFINITY;
    }
  }
  // The first key block that queries from t on see, and the last query block that sees keys up to u.
  __device__ int first_key_block(const Head& at, int t) const { return max(t - window + 1, -at.past) >> kBlockShift; }
  __device__ int last_query_block(const Head& at, int u) const {
    return min(static_cast<std::int64_t>(u) + window, static_cast<std::int64_t>(at.length)) - 1 >> kBlockShift;
  }
};

// What the forward pass keeps for the backward pass: turned queries and keys [B, H, T, padded width], padded with
// zeros, and log2(sum over u of exp(s_tu)) [B, H, T]. Rows at t >= length stay unwritten.
template <typename T>
struct Saved {
  T *q, *k;
  float* log2_sum_exp;

  static std::size_t vector_bytes(const AttentionShape& shape) {
    return sizeof(T) * shape.batch * shape.heads * shape.time * padded_width(shape.width);
  }
  static Saved of(void* saved, const AttentionShape& shape) {
    auto* bytes = static_cast<unsigned char*>(saved);
    if (saved == nullptr) return {};
    const std::size_t size = vector_bytes(shape);
    return {reinterpret_cast<T*>(bytes), reinterpret_cast<T*>(bytes + size),
            reinterpret_cast<float*>(bytes + 2 * size)};
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
  if (input.past.position_B != nullptr && input.past.ring.slots < 1)
    throw std::runtime_error("attention: a past in a ring of no slots");
  if (input.past.position_B != nullptr && input.dropout.drops())
    throw std::runtime_error("attention: dropout is not defined for weights of carried steps");
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
  const AttentionRing& ring = input.past.ring;
  return {s.batch,
          s.time,
          s.heads,
          s.width,
          input.window,
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
          make_frequencies(input.rotary_width),
          ring.dtype,
          ring.slots,
          ring.key_BSHW,
          ring.value_BSHW,
          input.past.position_B};
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

// Launches with `bytes` of dynamic shared memory, opted in to at the kernel's first launch, and checks the launch.
template <auto kKernel, typename... Arguments>
void launch(dim3 grid, int threads, std::size_t bytes, cudaStream_t stream, const char* name,
            const Arguments&... arguments) {
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  check_cuda(opted_in, name);
  kKernel<<<grid, threads, bytes, stream>>>(arguments...);
  check_cuda(cudaGetLastError(), name);
}

// The functions below share work among a team of kThreads<T> threads, a block or its first or second half, unless they
// say otherwise.
template <typename T>
__device__ inline int team_thread() {
  return threadIdx.x % kThreads<T>;
}

template <int kBytes, int kWidth, typename T>
__device__ inline void copy_rows_by(T* tile, const T* global, std::int64_t stride, int valid_rows, int columns) {
  constexpr int kElements = kBytes / sizeof(T), kPieces = kWidth / kElements, kLanes = kPieces < 32 ? kPieces : 32;
  constexpr int kRows = kThreads<T> / kLanes;
  const int column = team_thread<T>() % kLanes * kElements, row = team_thread<T>() / kLanes;
  global += row * stride + column;
  tile += row * kStride<kWidth> + column;
#pragma unroll
  for (int piece = 0; piece < kPieces * kElements; piece += kLanes * kElements) {
    if (column + piece >= columns) break;
    const T* from = global + piece;
#pragma unroll
    for (int i = 0; i < kBlock<T>; i += kRows, from += kRows * stride)
      copy_async<kBytes>(tile + i * kStride<kWidth> + piece, from, row + i < valid_rows);
  }
}

// Rows that are aligned to less than 16 bytes.
template <int kWidth, typename T>
__device__ __noinline__ void copy_rows_unaligned(T* tile, const T* global, std::int64_t stride, int valid_rows,
                                                 int columns, int bytes) {
  if (bytes == 8)
    copy_rows_by<8, kWidth>(tile, global, stride, valid_rows, columns);
  else
    copy_rows_by<4, kWidth>(tile, global, stride, valid_rows, columns);
}

// Starts the copy of a block of rows; rows from valid_rows on become zero.
template <int kWidth, typename T>
__device__ inline void copy_rows(T* tile, const T* global, std::int64_t stride, int valid_rows, int columns,
                                 int bytes) {
  if (bytes == 16)
    copy_rows_by<16, kWidth>(tile, global, stride, valid_rows, columns);
  else
    copy_rows_unaligned<kWidth>(tile, global, stride, valid_rows, columns, bytes);
}

// Saves a block of turned queries or keys.
template <int kWidth, typename T>
__device__ inline void save_rows(T* saved, const T* tile, const Problem<T>& problem,
                                 const typename Problem<T>::Head& at, int t) {
  constexpr int kElements = 16 / sizeof(T), kPieces = kWidth / kElements, kRows = kThreads<T> / kPieces;
  const int row = team_thread<T>() / kPieces, column = team_thread<T>() % kPieces * kElements;
  saved += problem.scalar(at, t + row) * kWidth + column;
  tile += row * kStride<kWidth> + column;
#pragma unroll
  for (int i = 0; i < kBlock<T>; i += kRows)
    if (t + row + i < at.length)
      *reinterpret_cast<uint4*>(saved + i * kWidth) = *reinterpret_cast<const uint4*>(tile + i * kStride<kWidth>);
}

// Zeroes the columns that pad the rows of `count` tiles; all threads of the block.
template <int kWidth, typename T>
__device__ inline void zero_padding(T* tiles, int count, int columns) {
  for (int row = threadIdx.x; row < count * kBlock<T>; row += blockDim.x)
    for (int column = columns; column < kWidth; column += 2)
      store_pair(tiles + row * kStride<kWidth> + column, 0.0f, 0.0f);
}

// Copies a block of the ring's rows, the steps from u < 0 on, padded with zeros; so become steps that it does not hold.
template <int kWidth, typename T>
__device__ __noinline__ void copy_ring(T* tile, const void* ring, const Problem<T>& problem,
                                       const typename Problem<T>::Head& at, int u) {
  constexpr int kPairs = kWidth / 2;
  for (int i = team_thread<T>(); i < kBlock<T> * kPairs; i += kThreads<T>) {
    const int row = i / kPairs, column = i % kPairs * 2;
    float2 x = {};
    if (u + row >= -at.past && column < problem.width) {
      const std::int64_t slot = (at.position + u + row) % problem.slots;
      const std::int64_t from =
          ((at.row * static_cast<std::int64_t>(problem.slots) + slot) * problem.heads + at.head) * problem.width +
          column;
      x = problem.ring_dtype == Dtype::kFloat32 ? load_pair(static_cast<const float*>(ring) + from)
                                                : load_pair(static_cast<const bf16*>(ring) + from);
    }
    store_pair(tile + row * kStride<kWidth> + column, x.x, x.y);
  }
}

// Starts the copy of a block of keys or values, the first of which stands at u, a multiple of the block, negative in
// the past.
template <int kWidth, typename T>
__device__ inline void copy_block(T* tile, const T* global, std::int64_t stride, const void* past,
                                  const Problem<T>& problem, const typename Problem<T>::Head& at, int u) {
  if (u < 0)
    copy_ring<kWidth>(tile, past, problem, at, u);
  else
    copy_rows<kWidth>(tile, global + problem.strided(at, u, stride, problem.head_stride), stride, at.length - u,
                      problem.width, problem.copy_bytes);
}

// The same from saved queries or keys.
template <int kWidth, typename T>
__device__ inline void copy_saved(T* tile, const T* saved, const void* past, const Problem<T>& problem,
                                  const typename Problem<T>::Head& at, int u) {
  if (u < 0)
    copy_ring<kWidth>(tile, past, problem, at, u);
  else
    copy_rows_by<16, kWidth>(tile, saved + problem.scalar(at, u) * kWidth, kWidth, at.length - u, kWidth);
}

// Turns blocks of rows in place, with all threads of a block: a thread owns a pair of channels of every `phases`-th
// row.
struct Turner {
  int pairs, channel, phase, phases;
  std::uint64_t turns;
  Rotation step;

  __device__ explicit Turner(const Frequencies& frequencies) : pairs(frequencies.pairs) {
    const int divisor = max(pairs, 1);
    phases = blockDim.x / divisor;
    phase = threadIdx.x / divisor;
    channel = threadIdx.x % divisor;
    turns = frequencies.turns[channel];
    step = Rotation::by(turns * phases);
  }
  // The first row of each tile stands at `position`.
  template <int kWidth, typename T, int kTiles>
  __device__ void turn(T* const (&tiles)[kTiles], std::int64_t position) const {
    if (phase >= phases || pairs == 0) return;
    Rotation rotation = Rotation::by(turns * static_cast<std::uint64_t>(position + phase));
    int offset = phase * kStride<kWidth> + channel;
    const int end = kBlock<T> * kStride<kWidth>, advance = phases * kStride<kWidth>;
    T x[kTiles], y[kTiles];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) x[i] = tiles[i][offset], y[i] = tiles[i][offset + pairs];
#pragma unroll 2
    for (; offset < end; offset += advance) {
      T next_x[kTiles], next_y[kTiles];
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const float2 turned = rotation.turn(static_cast<float>(x[i]), static_cast<float>(y[i]));
        if (offset + advance < end) {
          next_x[i] = tiles[i][offset + advance];
          next_y[i] = tiles[i][offset + advance + pairs];
        }
        tiles[i][offset] = T(turned.x);
        tiles[i][offset + pairs] = T(turned.y);
        x[i] = next_x[i], y[i] = next_y[i];
      }
      rotation = rotation.then(step);
    }
  }
};

// Stores a warp's rows, at most `rows` of 16, in pairs; rows from `valid` on as zeros. x must be finite there.
template <int kWidth, typename T>
__device__ inline void store_rows(T* global, std::int64_t stride, const Accumulator (&x)[kWidth / 8], int width,
                                  int valid, int rows) {
  const int g = lane_id() / 4, t = lane_id() % 4 * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (g + 8 * r >= rows) return;
    T* own = global + (g + 8 * r) * stride + t;
    const float factor = g + 8 * r < valid ? 1.0f : 0.0f;
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i)
      if (t + 8 * i < width) store_pair(own + 8 * i, x[i].x[2 * r] * factor, x[i].x[2 * r + 1] * factor);
  }
}

// The same, turned back and scaled; the first row stands at `position`. `staging`: 16 rows of kStride<kWidth> floats of
// the warp's own.
template <int kWidth, typename T>
__device__ inline void store_turned_back(T* global, std::int64_t stride, const Accumulator (&x)[kWidth / 8],
                                         float* staging, const Frequencies& frequencies, std::int64_t position,
                                         float scale, int width, int valid, int rows) {
  const int g = lane_id() / 4, t = lane_id() % 4 * 2, pairs = frequencies.pairs;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float factor = g + 8 * r < valid ? scale : 0.0f;
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i)
      store_pair(staging + (g + 8 * r) * kStride<kWidth> + 8 * i + t, factor * x[i].x[2 * r],
                 factor * x[i].x[2 * r + 1]);
  }
  __syncwarp();
  rows = min(rows, 16);
  for (int i = lane_id(); i < pairs; i += 32) {
    const std::uint64_t turns = frequencies.turns[i];
    Rotation rotation = Rotation::by(turns * static_cast<std::uint64_t>(position));
    const Rotation step = Rotation::by(turns);
    const float* from = staging + i;
    T* to = global + i;
#pragma unroll 4
    for (int row = 0; row < rows; ++row, from += kStride<kWidth>, to += stride) {
      const float2 turned = rotation.turn_back(from[0], from[pairs]);
      to[0] = T(turned.x);
      to[pairs] = T(turned.y);
      rotation = rotation.then(step);
    }
  }
  const int row = lane_id() % 16;
  if (row < rows)
    for (int column = 2 * pairs + lane_id() / 16 * 2; column < width; column += 4) {
      const float2 pair = load_pair(staging + row * kStride<kWidth> + column);
      store_pair(global + row * stride + column, pair.x, pair.y);
    }
}

// Zeroes a block of rows of `width` elements, at most `rows`.
template <typename T>
__device__ inline void zero_rows(T* global, std::int64_t stride, int width, int rows) {
  for (int row = team_thread<T>() / 32; row < min(rows, kBlock<T>); row += kThreads<T> / 32)
    for (int column = lane_id() * 2; column < width; column += 64)
      store_pair(global + row * stride + column, 0.0f, 0.0f);
}

// Which weights of a block of queries and keys dropout keeps, a bit each: byte [query][key / 8].
template <typename T>
struct KeptWeights {
  static constexpr int kGroups = kBlock<T> / kDropoutGroup;
  unsigned char bits[kBlock<T> * kGroups];

  __device__ void draw(const Problem<T>& problem, std::int64_t first_row, int u) {
    for (int i = team_thread<T>(); i < kBlock<T> * kGroups; i += kThreads<T>) {
      const std::int64_t row = first_row + i / kGroups;
      float factor[kDropoutGroup];
      problem.dropout.draw((row * dropout_row(problem.time) + u) / kDropoutGroup + i % kGroups, factor);
      unsigned kept = 0;
#pragma unroll
      for (int e = 0; e < kDropoutGroup; ++e) kept |= (factor[e] != 0.0f ? 1u : 0u) << e;
      bits[i] = static_cast<unsigned char>(kept);
    }
  }
  __device__ bool kept(int query, int key) const { return bits[query * kGroups + key / 8] >> key % 8 & 1; }
};

// 2^x, zero below 2^-126.
__device__ inline float exp2_flushed(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The left operand of a warp's 16 rows, kept in registers where they are few and kKeep, else loaded for each use.
template <typename T, int kWidth, bool kKeep = true>
struct Rows {
  static constexpr bool kKept = kKeep && sizeof(T) == 2 && kWidth == 64;
  FragmentA<kPlanes<T>> fragment[kKept ? kWidth / 16 : 1];
  const T* tile;

  __device__ explicit Rows(const T* rows) : tile(rows) {
    if constexpr (kKept)
#pragma unroll
      for (int step = 0; step < kWidth / 16; ++step) load_a(fragment[step], tile + step * 16, kStride<kWidth>);
  }
  // The 16 x 16 products of the rows with 16 rows of `other`.
  __device__ void multiply(Accumulator (&product)[2], const T* other) {
    product[0] = product[1] = {};
#pragma unroll
    for (int step = 0; step < kWidth / 16; ++step) {
      FragmentB<kPlanes<T>> b[2];
      load_b(b, other + step * 16, kStride<kWidth>);
      if constexpr (!kKept) load_a(fragment[0], tile + step * 16, kStride<kWidth>);
      multiply_add(product[0], fragment[kKept ? step : 0], b[0]);
      multiply_add(product[1], fragment[kKept ? step : 0], b[1]);
    }
  }
};

// sum (16 x width) += weights (16 x 16, in two accumulators) times 16 rows of `tile`.
template <int kWidth, typename T>
__device__ inline void add_weighted(Accumulator (&sum)[kWidth / 8], const Accumulator (&weight)[2], const T* tile) {
  FragmentA<kPlanes<T>> weights;
  to_fragment(weights, weight[0], weight[1]);
#pragma unroll
  for (int column = 0; column < kWidth / 16; ++column) {
    FragmentB<kPlanes<T>> b[2];
    load_b_transposed(b, tile + column * 16, kStride<kWidth>);
    multiply_add(sum[2 * column], weights, b[0]);
    multiply_add(sum[2 * column + 1], weights, b[1]);
  }
}

}  // namespace engram::attention
