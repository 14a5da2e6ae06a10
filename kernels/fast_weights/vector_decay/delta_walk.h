// What one thread does with the delta rule under a decay for each key channel, forward, and backward as far as its
// steps depend on each other; compiled for the GPU and for the CPU, where the tests let the threads of a block take
// turns.
//
// Columns of S know nothing of each other. kLanes threads beside each other have one, of kPart channels each, and put
// together what they read of it at every step, which the step writes by. Time is cut into segments of kSteps steps,
// whose keys, queries and decays a block of kColumns columns shares. Behind a row's length, and beyond the last channel
// and column, vectors are zero and nothing decays.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/fast_weights/vector_decay/vector_decay.h"
#include "kernels/fast_weights/vector_decay/walk.h"

namespace engram::vector_decay {

// M is S of a column, and e_t what the step found wrong; or M is the gradient of S, from the last step to the first,
// and the walk is for that of what is written, u_t.
enum class DeltaRole { kForward, kBackward };

struct DeltaProblem {
  VectorDelta given;
  float *output_BTHV, *error_BTHV;    // of kForward: o and e
  const float* output_gradient_BTHV;  // of kBackward
  float* written_gradient_BTHV;       // of kBackward: that of u
};

// Calls function(threads of a column) with the smallest number that hold `width` channels, as a constant.
constexpr int kDeltaPart = 16;
template <class Function>
void with_lanes(int width, const Function& function) {
  if (width <= kDeltaPart)
    function(std::integral_constant<int, 1>{});
  else if (width <= 2 * kDeltaPart)
    function(std::integral_constant<int, 2>{});
  else if (width <= 4 * kDeltaPart)
    function(std::integral_constant<int, 4>{});
  else
    function(std::integral_constant<int, kMaxVectorDecayWidth / kDeltaPart>{});
}

template <DeltaRole kRole, int kLanes>
class DeltaWalk {
 public:
  static constexpr bool kReversed = kRole == DeltaRole::kBackward;
  static constexpr int kPart = kDeltaPart, kWidth = kPart * kLanes, kColumns = 32, kThreads = kColumns * kLanes;
  static constexpr int kSteps = 8;

  struct Shared {
    alignas(16) float key[2][kSteps][kWidth];  // a segment is fetched while a block goes through the one before
    alignas(16) float query[2][kSteps][kWidth];
    alignas(16) float decay[2][kSteps][kWidth];
    float strength[2][kSteps];
    float part[2][kThreads];       // of what a step reads to write by; steps by turns
    float read[kSteps][kThreads];  // of o
  };

  // Blocks of a row and a head.
  HOST_DEVICE static constexpr int groups(const VectorDecay& given) {
    return (given.value_width + kColumns - 1) / kColumns;
  }

  VECTOR_DECAY_INLINE DeltaWalk(const DeltaProblem& problem, unsigned block, unsigned thread)
      : problem_(problem), thread_(static_cast<int>(thread)), lane_(thread_ % kLanes) {
    const VectorDecay& in = problem.given.sum;
    const auto columns = static_cast<unsigned>(groups(in)), heads = static_cast<unsigned>(in.heads);
    const unsigned matrix = block / columns;
    column_ = static_cast<int>(block % columns) * kColumns + thread_ / kLanes;
    head_ = static_cast<int>(matrix % heads);
    batch_ = matrix / heads;
    length_ = static_cast<int>(in.length_B[batch_]);
  }

  // The same in all threads of a block.
  VECTOR_DECAY_INLINE int segments() const { return (length_ + kSteps - 1) / kSteps; }
  // The n-th in the order of the walk.
  VECTOR_DECAY_INLINE int segment(int n) const { return kReversed ? segments() - 1 - n : n; }

  // Asks for a segment's vectors.
  VECTOR_DECAY_INLINE void fetch(int segment) {
    const VectorDecay& in = problem_.given.sum;
    VECTOR_DECAY_UNROLL
    for (int i = 0; i < kFetched; ++i) {
      const int index = i * kThreads + thread_, t = segment * kSteps + index / kWidth, channel = index % kWidth;
      fetched_[i] = {read(in.key_BTHK, t, channel, in.key_width), read(in.query_BTHK, t, channel, in.key_width),
                     read(in.log_decay_BTHK, t, channel, in.key_width)};
    }
    const float* const of_column = kReversed ? problem_.output_gradient_BTHV : in.value_BTHV;
    VECTOR_DECAY_UNROLL
    for (int s = 0; s < kSteps; ++s) next_[s] = read(of_column, segment * kSteps + s, column_, in.value_width);
    if (thread_ < kSteps) strength_ = read(problem_.given.strength_BTH, segment * kSteps + thread_, 0, 1);
  }

  // Puts them where all threads find them, when the last reader of the segment before the last is through.
  VECTOR_DECAY_INLINE void stage(int segment, Shared& shared) {
    const int place = segment % 2;
    VECTOR_DECAY_UNROLL
    for (int i = 0; i < kFetched; ++i) {
      const int index = i * kThreads + thread_, s = index / kWidth, channel = index % kWidth;
      shared.key[place][s][channel] = fetched_[i].key;
      shared.query[place][s][channel] = problem_.given.sum.scale * fetched_[i].query;
      shared.decay[place][s][channel] = std::exp(fetched_[i].log_decay);
    }
    if (thread_ < kSteps) shared.strength[place][thread_] = strength_;
    VECTOR_DECAY_UNROLL
    for (int s = 0; s < kSteps; ++s) of_column_[s] = next_[s];
  }

  // Of the i-th step of a segment in the order of the walk: up to what all lanes of a column must have read...
  VECTOR_DECAY_INLINE void begin_step(int segment, int i, Shared& shared) {
    const int place = segment % 2, s = step(i);
    float sum[4] = {};  // chains of their own
    VECTOR_DECAY_UNROLL
    for (int n = 0; n < kPart; ++n) {
      const int channel = channel_of(n);
      if constexpr (kReversed)
        m_[n] += shared.query[place][s][channel] * of_column_[s];
      else
        m_[n] *= shared.decay[place][s][channel];
      sum[n % 4] += m_[n] * shared.key[place][s][channel];
    }
    shared.part[i % 2][thread_] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  // ... and from there on.
  VECTOR_DECAY_INLINE void end_step(int segment, int i, Shared& shared) {
    const int place = segment % 2, s = step(i);
    float all = 0;
    VECTOR_DECAY_UNROLL
    for (int lane = 0; lane < kLanes; ++lane) all += shared.part[i % 2][thread_ - lane_ + lane];
    const float strength = shared.strength[place][s];
    if constexpr (kReversed) {
      const float d_read = -strength * all;
      VECTOR_DECAY_UNROLL
      for (int n = 0; n < kPart; ++n) {
        const int channel = channel_of(n);
        m_[n] = shared.decay[place][s][channel] * (m_[n] + shared.key[place][s][channel] * d_read);
      }
      if (lane_ == 0) write(problem_.written_gradient_BTHV, segment * kSteps + s, all);
    } else {
      const float error = of_column_[s] - all, written = strength * error;
      float sum[4] = {};
      VECTOR_DECAY_UNROLL
      for (int n = 0; n < kPart; ++n) {
        const int channel = channel_of(n);
        m_[n] += shared.key[place][s][channel] * written;
        sum[n % 4] += m_[n] * shared.query[place][s][channel];
      }
      shared.read[s][thread_] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
      if (lane_ == 0) write(problem_.error_BTHV, segment * kSteps + s, error);
    }
  }

  // Of kForward, when a column's lanes have gone through a segment: a lane adds up what they read at some of its steps.
  VECTOR_DECAY_INLINE void finish(int segment, const Shared& shared) const {
    for (int s = lane_; s < kSteps; s += kLanes) {
      float sum = 0;
      VECTOR_DECAY_UNROLL
      for (int lane = 0; lane < kLanes; ++lane) sum += shared.read[s][thread_ - lane_ + lane];
      write(problem_.output_BTHV, segment * kSteps + s, sum);
    }
  }

  // Zeros behind the row's length; what of it is in the last segment has been written.
  VECTOR_DECAY_INLINE void end() const {
    for (int t = segments() * kSteps + lane_; t < problem_.given.sum.time; t += kLanes) {
      if constexpr (kReversed) {
        write(problem_.written_gradient_BTHV, t, 0);
      } else {
        write(problem_.output_BTHV, t, 0);
        write(problem_.error_BTHV, t, 0);
      }
    }
  }

 private:
  static constexpr int kFetched = kSteps * kWidth / kThreads;
  struct Fetched {
    float key, query, log_decay;
  };

  VECTOR_DECAY_INLINE static int step(int i) { return kReversed ? kSteps - 1 - i : i; }
  // Of the lane: four beside each other, which a thread reads at once, then the other lanes' four.
  VECTOR_DECAY_INLINE int channel_of(int n) const { return 4 * (lane_ + kLanes * (n / 4)) + n % 4; }
  VECTOR_DECAY_INLINE std::int64_t at(int t, int channel, int width) const {
    const VectorDecay& in = problem_.given.sum;
    return ((static_cast<std::int64_t>(batch_) * in.time + t) * in.heads + head_) * width + channel;
  }
  VECTOR_DECAY_INLINE float read(const float* x, int t, int channel, int width) const {
    return t < length_ && channel < width ? x[at(t, channel, width)] : 0.0f;
  }
  VECTOR_DECAY_INLINE void write(float* x_BTHV, int t, float value) const {
    const int width = problem_.given.sum.value_width;
    if (t < problem_.given.sum.time && column_ < width) x_BTHV[at(t, column_, width)] = t < length_ ? value : 0.0f;
  }

  const DeltaProblem& problem_;
  int thread_, lane_, column_, head_, length_;
  unsigned batch_;
  float m_[kPart] = {};
  Fetched fetched_[kFetched];
  float next_[kSteps], of_column_[kSteps], strength_ = 0;  // v, or the gradient of o, of the column
};

// The loop of a block (kernels/common/block_threads.h).
template <class OneWalk, class Threads>
VECTOR_DECAY_INLINE void walk_delta_block(Threads& threads) {
  const int segments = threads.any().segments();
  if (segments > 0) threads.each([](auto& walk, auto&) { walk.fetch(walk.segment(0)); });
  for (int n = 0; n < segments; ++n) {
    const int segment = threads.any().segment(n);
    threads.each([=](auto& walk, auto& shared) { walk.stage(segment, shared); });
    threads.meet();
    if (n + 1 < segments) threads.each([=](auto& walk, auto&) { walk.fetch(walk.segment(n + 1)); });
    VECTOR_DECAY_UNROLL
    for (int i = 0; i < OneWalk::kSteps; ++i) {
      threads.each([=](auto& walk, auto& shared) { walk.begin_step(segment, i, shared); });
      threads.meet_warp();
      threads.each([=](auto& walk, auto& shared) { walk.end_step(segment, i, shared); });
    }
    if constexpr (!OneWalk::kReversed) {
      threads.meet_warp();
      threads.each([=](auto& walk, auto& shared) { walk.finish(segment, shared); });
      threads.meet_warp();
    }
  }
  threads.each([](auto& walk, auto&) { walk.end(); });
}

}  // namespace engram::vector_decay
