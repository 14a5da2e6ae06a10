// What one thread does in a step of the delayed fast weights, compiled for the GPU and for the CPU, where the tests let
// the threads of a block take turns.
//
// A block has the fast weights of one row and head, thread j their column j, in registers:
//   begin()  the query
//   stage()  a tile of the pairs that are to be written: keys but for their length, values and strengths
//   write()  the tile's pairs one after another. The length of a key every thread finds by itself, from the same
//            numbers, and of a column nobody else knows.
//   read()   the column's element of the output
//   end()
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "kernels/attention/rotary.cuh"
#include "kernels/fast_weights/delayed_memory/delayed_memory.h"

#if defined(__CUDA_ARCH__)
#define DELAYED_UNROLL _Pragma("unroll")
#else
#define DELAYED_UNROLL
#endif
#define DELAYED_INLINE [[gnu::always_inline]] HOST_DEVICE inline

namespace engram::delayed_memory {

// Pairs that are shared at a time; a stream has one to write.
constexpr int tile_of(Delay delay) { return delay == Delay::kStream ? 2 : 16; }
constexpr float kSquareEpsilon = 1e-6f;

template <typename T>
struct Problem {
  int heads, width, output_width, slots;
  float scale;
  std::int64_t q_row_stride, q_head_stride;
  const T *q, *beta_NH;
  const std::int64_t* position_N;
  const float *key_ring_NSHW, *value_ring_NSHW;
  float *beta_ring_NSH, *fast_NHWW;
  T* output_NHP;
  attention::Frequencies frequencies;
};

template <typename T>
Problem<T> problem_of(const DelayedMemoryStep& step) {
  return {step.heads,
          step.width,
          step.output_width,
          step.slots,
          step.scale,
          step.q_row_stride,
          step.q_head_stride,
          static_cast<const T*>(step.q),
          static_cast<const T*>(step.beta_NH),
          step.position_N,
          step.key_ring_NSHW,
          step.value_ring_NSHW,
          step.beta_ring_NSH,
          step.fast_NHWW,
          static_cast<T*>(step.output_NHP),
          attention::make_frequencies(step.rotary_width)};
}

// kThreads: the head's width rounded up.
template <Delay kDelay, int kThreads>
struct Shared {
  static constexpr int kTile = tile_of(kDelay);
  alignas(16) float query[kThreads];
  alignas(16) float key[kTile][kThreads];
  float value[kTile][kThreads];
  float beta[kTile];
};

template <Delay kDelay, typename T, int kThreads>
class Walk {
  static constexpr int kTile = tile_of(kDelay);

 public:
  using OfBlock = Shared<kDelay, kThreads>;

  DELAYED_INLINE Walk(const Problem<T>& problem, unsigned block, unsigned thread)
      : problem_(problem),
        block_(block),
        row_(block / static_cast<unsigned>(problem.heads)),
        head_(static_cast<int>(block % static_cast<unsigned>(problem.heads))),
        column_(static_cast<int>(thread)),
        position_(problem.position_N[row_]),
        slot_(static_cast<int>(position_ % problem.slots)),
        own_beta_(static_cast<float>(problem.beta_NH[block])) {
    if constexpr (kDelay == Delay::kStream)
      pairs_ = position_ >= problem.slots ? 1 : 0;
    else
      pairs_ = slot_ == problem.slots - 1 ? problem.slots : 0;
  }

  // The same in all threads of a block.
  DELAYED_INLINE int tiles() const { return (pairs_ + kTile - 1) / kTile; }

  DELAYED_INLINE void begin(OfBlock& shared) {
    DELAYED_UNROLL
    for (int k = 0; k < kThreads; ++k) fast_[k] = k < problem_.width && inside() ? *element(k) : 0.0f;
    const T* const q = problem_.q + row_ * problem_.q_row_stride + head_ * problem_.q_head_stride;
    shared.query[column_] = inside() ? static_cast<float>(q[column_]) : 0.0f;
    if (kDelay == Delay::kChunk && column_ == 0)
      problem_.beta_ring_NSH[(row_ * problem_.slots + slot_) * problem_.heads + head_] = own_beta_;
  }

  // All that is read from memory is asked for before anything is used.
  DELAYED_INLINE void stage(int tile, OfBlock& shared) const {
    const int first = tile * kTile, count = in_tile(tile);
    // The threads of either half have a key's pairs of channels: i and i + R / 2, which RoPE turns as a plane, or two
    // neighbours after these.
    const int half = column_ / (kThreads / 2), i = column_ % (kThreads / 2), planes = problem_.frequencies.pairs;
    const int x_channel = i < planes ? i : 2 * i, y_channel = i < planes ? i + planes : 2 * i + 1;
    float x[kTile / 2], y[kTile / 2], value[kTile];
    DELAYED_UNROLL
    for (int n = 0; n < kTile / 2; ++n) {
      const int own = 2 * n + half;
      const float* const key = problem_.key_ring_NSHW + ring(slot_of(first + own));
      x[n] = own < count && x_channel < problem_.width ? key[x_channel] : 0.0f;
      y[n] = own < count && y_channel < problem_.width ? key[y_channel] : 0.0f;
    }
    DELAYED_UNROLL
    for (int n = 0; n < kTile; ++n)
      value[n] = n < count && inside() ? problem_.value_ring_NSHW[ring(slot_of(first + n)) + column_] : 0.0f;
    if (column_ < count) shared.beta[column_] = beta_of(first + column_);
    DELAYED_UNROLL
    for (int n = 0; n < kTile / 2; ++n) {
      const int own = 2 * n + half;
      if (own >= count) continue;
      if (i < planes) {
        const auto turns = problem_.frequencies.turns[i] * static_cast<std::uint64_t>(turned_by(first + own));
        const auto back = attention::Rotation::by(turns).turn_back(x[n], y[n]);
        x[n] = back.x, y[n] = back.y;
      }
      shared.key[own][x_channel] = silu(x[n]);
      shared.key[own][y_channel] = silu(y[n]);
    }
    DELAYED_UNROLL
    for (int n = 0; n < kTile; ++n) shared.value[n][column_] = value[n];
  }

  DELAYED_INLINE void write(int tile, const OfBlock& shared) {
    for (int i = 0; i < in_tile(tile); ++i) {
      const float* const u = shared.key[i];
      float along[kSums] = {}, square[kSums] = {kSquareEpsilon};
      DELAYED_UNROLL
      for (int k = 0; k < kThreads; ++k) {
        along[k % kSums] += u[k] * fast_[k];
        square[k % kSums] += u[k] * u[k];
      }
      const float inverse = 1.0f / std::sqrt(sum_of(square));
      const float update = inverse * shared.beta[i] * (shared.value[i][column_] - inverse * sum_of(along));
      DELAYED_UNROLL
      for (int k = 0; k < kThreads; ++k) fast_[k] += u[k] * update;
    }
  }

  DELAYED_INLINE void read(const OfBlock& shared) const {
    float along[kSums] = {};
    DELAYED_UNROLL
    for (int k = 0; k < kThreads; ++k) along[k % kSums] += shared.query[k] * fast_[k];
    if (column_ < problem_.output_width)
      problem_.output_NHP[std::int64_t{block_} * problem_.output_width + column_] = T(problem_.scale * sum_of(along));
  }

  DELAYED_INLINE void end() const {
    if (pairs_ == 0 || !inside()) return;
    DELAYED_UNROLL
    for (int k = 0; k < kThreads; ++k)
      if (k < problem_.width) *element(k) = fast_[k];
  }

 private:
  static constexpr int kSums = 4;  // under way at once

  DELAYED_INLINE static float sum_of(const float (&part)[kSums]) { return (part[0] + part[1]) + (part[2] + part[3]); }

  DELAYED_INLINE bool inside() const { return column_ < problem_.width; }
  DELAYED_INLINE float* element(int k) const {
    return problem_.fast_NHWW + (std::int64_t{block_} * problem_.width + k) * problem_.width + column_;
  }
  DELAYED_INLINE int in_tile(int tile) const {
    const int left = pairs_ - tile * kTile;
    return left < kTile ? left : kTile;
  }
  // Of the pair number `pair`: where it stands, and by how many steps its key is turned.
  DELAYED_INLINE int slot_of(int pair) const { return kDelay == Delay::kStream ? slot_ : pair; }
  DELAYED_INLINE std::int64_t turned_by(int pair) const {
    return kDelay == Delay::kStream ? position_ - problem_.slots : pair;
  }
  DELAYED_INLINE std::int64_t ring(int slot) const {
    return ((row_ * problem_.slots + slot) * problem_.heads + head_) * problem_.width;
  }
  DELAYED_INLINE float beta_of(int pair) const {
    // What begin() has put into the ring, another thread may have.
    if (kDelay == Delay::kStream || pair == slot_) return own_beta_;
    return problem_.beta_ring_NSH[(row_ * problem_.slots + pair) * problem_.heads + head_];
  }

  DELAYED_INLINE static float silu(float x) { return x / (1.0f + std::exp(-x)); }

  const Problem<T>& problem_;
  unsigned block_;
  std::int64_t row_;
  int head_, column_;
  std::int64_t position_;
  int slot_;
  float own_beta_;
  int pairs_;  // to be written
  float fast_[kThreads];
};

// The loop of a block (kernels/common/block_threads.h).
template <Delay kDelay, class Threads>
DELAYED_INLINE void walk_block(Threads& threads) {
  threads.each([](auto& walk, auto& shared) { walk.begin(shared); });
  threads.meet();
  if constexpr (kDelay == Delay::kChunk) threads.each([](auto& walk, auto& shared) { walk.read(shared); });
  const int tiles = threads.any().tiles();
  for (int tile = 0; tile < tiles; ++tile) {
    threads.each([=](auto& walk, auto& shared) { walk.stage(tile, shared); });
    threads.meet();
    threads.each([=](auto& walk, auto& shared) { walk.write(tile, shared); });
    threads.meet();
  }
  if constexpr (kDelay == Delay::kStream) threads.each([](auto& walk, auto& shared) { walk.read(shared); });
  threads.each([](auto& walk, auto&) { walk.end(); });
}

}  // namespace engram::delayed_memory
