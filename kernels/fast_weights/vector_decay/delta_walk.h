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

template <DeltaRole kRole, int kLanes>
class DeltaWalk {
 public:
  static constexpr bool kReversed = kRole == DeltaRole::kBackward;
  static constexpr int kPart = 16, kWidth = kPart * kLanes, kColumns = 32, kThreads = kColumns * kLanes;
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
      : problem_(problem),
        thread_(static_cast<int>(thread)),
        lane_(thread_ % kLanes),
        row_(thread_ / kWidth),
        channel_(thread_ % kWidth) {
    const VectorDecay& in = problem.given.sum;
    const auto columns = static_cast<unsigned>(groups(in)), heads = static_cast<unsigned>(in.heads);
    const unsigned matrix = block / columns;
    const int column = static_cast<int>(block % columns) * kColumns + thread_ / kLanes;
    const unsigned head = matrix % heads, batch = matrix / heads;
    length_ = static_cast<int>(in.length_B[batch]);
    first_ = batch * static_cast<unsigned>(in.time) * heads + head;
    heads_ = heads;
    value_stride_ = heads * static_cast<unsigned>(in.value_width);
    first_element_ = first_ * static_cast<unsigned>(in.value_width) + static_cast<unsigned>(column);
    written_ = column < in.value_width ? in.time : 0;
    read_ = column < in.value_width ? length_ : 0;
    fetched_length_ = channel_ < in.key_width ? length_ : 0;
  }

  // The same in all threads of a block.
  VECTOR_DECAY_INLINE int segments() const { return (length_ + kSteps - 1) / kSteps; }
  // The n-th in the order of the walk.
  VECTOR_DECAY_INLINE int segment(int n) const { return kReversed ? segments() - 1 - n : n; }

  // Asks for a segment's vectors.
  VECTOR_DECAY_INLINE void fetch(int segment) {
    const VectorDecay& in = problem_.given.sum;
    const int begin = segment * kSteps;
    VECTOR_DECAY_UNROLL
    for (int i = 0; i < kFetched; ++i) {
      const int t = begin + i * kRowsAtOnce + row_;
      fetched_[i] = {};
      if (t >= fetched_length_) continue;
      const unsigned at = vector(t) * static_cast<unsigned>(in.key_width) + static_cast<unsigned>(channel_);
      fetched_[i] = {in.key_BTHK[at], in.query_BTHK[at], in.log_decay_BTHK[at]};
    }
    const float* const of_column = kReversed ? problem_.output_gradient_BTHV : in.value_BTHV;
    VECTOR_DECAY_UNROLL
    for (int s = 0; s < kSteps; ++s) next_[s] = begin + s < read_ ? of_column[element(begin + s)] : 0.0f;
    if (thread_ < kSteps)
      strength_ = begin + thread_ < length_ ? problem_.given.strength_BTH[vector(begin + thread_)] : 0.0f;
  }

  // Puts them where all threads find them, when the last reader of the segment before the last is through.
  VECTOR_DECAY_INLINE void stage(int segment, Shared& shared) {
    const int place = segment % 2;
    VECTOR_DECAY_UNROLL
    for (int i = 0; i < kFetched; ++i) {
      const int s = i * kRowsAtOnce + row_;
      shared.key[place][s][channel_] = fetched_[i].key;
      shared.query[place][s][channel_] = problem_.given.sum.scale * fetched_[i].query;
      shared.decay[place][s][channel_] = std::exp(fetched_[i].log_decay);
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
    VECTOR_DECAY_UNROLL
    for (int i = 0; i < kSteps / kLanes; ++i) {
      const int s = i * kLanes + lane_;
      float sum = 0;
      VECTOR_DECAY_UNROLL
      for (int lane = 0; lane < kLanes; ++lane) sum += shared.read[s][thread_ - lane_ + lane];
      write(problem_.output_BTHV, segment * kSteps + s, sum);
    }
  }

  // Zeros behind the row's length; what of it is in the last segment has been written.
  VECTOR_DECAY_INLINE void end() const {
    for (int t = segments() * kSteps + lane_; t < written_; t += kLanes) {
      if constexpr (kReversed) {
        write(problem_.written_gradient_BTHV, t, 0);
      } else {
        write(problem_.output_BTHV, t, 0);
        write(problem_.error_BTHV, t, 0);
      }
    }
  }

 private:
  static constexpr int kRowsAtOnce = kThreads / kWidth, kFetched = kSteps / kRowsAtOnce;  // of a segment, by a thread
  struct Fetched {
    float key, query, log_decay;
  };

  VECTOR_DECAY_INLINE static int step(int i) { return kReversed ? kSteps - 1 - i : i; }
  // Of the lane: four beside each other, which a thread reads at once, then the other lanes' four.
  VECTOR_DECAY_INLINE int channel_of(int n) const { return 4 * (lane_ + kLanes * (n / 4)) + n % 4; }
  // Numbers of the head's vector at step t among all, and of the column's element: below 2^31, by the contract.
  VECTOR_DECAY_INLINE unsigned vector(int t) const { return first_ + static_cast<unsigned>(t) * heads_; }
  VECTOR_DECAY_INLINE unsigned element(int t) const {
    return first_element_ + static_cast<unsigned>(t) * value_stride_;
  }
  VECTOR_DECAY_INLINE void write(float* x_BTHV, int t, float value) const {
    if (t < written_) x_BTHV[element(t)] = t < length_ ? value : 0.0f;
  }

  const DeltaProblem& problem_;
  int thread_, lane_, length_;
  int row_, channel_;                    // of what the thread fetches
  int written_, read_, fetched_length_;  // steps of the column that are there, and to be read; of the channel
  unsigned first_, heads_, first_element_, value_stride_;  // vector(0), element(0) and what follows them
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
