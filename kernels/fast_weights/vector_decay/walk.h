// What one thread does with the sum rule under a decay for each key channel, compiled for the GPU and for the CPU,
// where the tests let the threads of a block take turns.
//
// All that is asked for is found by walks of one form along time, each with a matrix M of its own,
//   M_t = decay_t * M_{t-1} + u_t w_t^T,   y_t = scale M_t x_t,
// which is S, or S^T, or from the last step to the first the gradient of S, or its transpose (Role). A slot of kLanes
// threads beside each other has kEach rows of M, a thread kPart columns of them: j = lane, lane + kLanes and so on.
// Rows know nothing of each other. Time is cut into segments of kSteps steps. The .cu file says what a block waits for
// between two calls.
//
// Behind a row's length, and beyond the last row and column, vectors are zero and nothing decays.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/host_device.h"
#include "kernels/fast_weights/vector_decay/vector_decay.h"

#if defined(__CUDA_ARCH__)
#define VECTOR_DECAY_UNROLL _Pragma("unroll")
#else
#define VECTOR_DECAY_UNROLL
#endif
#define VECTOR_DECAY_INLINE [[gnu::always_inline]] HOST_DEVICE inline

namespace engram::vector_decay {

constexpr int kLanes = 16, kSlots = 8;
constexpr int kEach = 2;  // rows of a slot: what is read of a column serves both

// What a walk is for; G_t is the gradient of S_t by o_t and all that follows it, over `scale`.
//           M        rows of   decay of   u    w    x    y
//   kOutput S^T      V         columns    v    k    q    o
//   kQuery  S        K         rows       k    v    do   dq
//   kValue  G^T      V         columns    do   q    k    dv
//   kKey    G        K         rows       q    do   v    dk, and with it dg
enum class Role { kOutput, kQuery, kValue, kKey };

struct Problem {
  VectorDecay given;
  const float* output_gradient_BTHV;  // null in kOutput
  float* output_BTHV;                 // of kOutput
  VectorDecayGradient gradient;       // of the others; kKey reads the queries'
};

// Calls function(n) with the smallest n of 1, 2, 4 and 8, as a constant, of which n times 16 channels hold `width`.
template <class Function>
void with_sixteens(int width, const Function& function) {
  static_assert(kMaxVectorDecayWidth == 8 * 16);
  if (width <= 16)
    function(std::integral_constant<int, 1>{});
  else if (width <= 32)
    function(std::integral_constant<int, 2>{});
  else if (width <= 64)
    function(std::integral_constant<int, 4>{});
  else
    function(std::integral_constant<int, 8>{});
}

HOST_DEVICE constexpr bool has_rows_of_keys(Role role) { return role == Role::kQuery || role == Role::kKey; }

template <Role kRole, int kPart>
class Walk {
 public:
  static constexpr bool kReversed = kRole == Role::kValue || kRole == Role::kKey;
  static constexpr bool kKeyRows = has_rows_of_keys(kRole);  // whose decays are of rows, else of columns
  static constexpr int kThreads = kSlots * kLanes, kRows = kSlots * kEach, kWidth = kLanes * kPart;
  static constexpr int kSteps = kPart <= 2 ? 16 : 8;  // as far as shared memory goes
  static_assert(kSteps % kSlots == 0 && kSteps <= kLanes);

  struct alignas(16) OfColumn {
    float w, x, decay;
  };
  struct alignas(16) OfRows {
    float u[kEach], decay[kEach];
  };
  struct Shared {
    OfColumn column[2][kSteps][kWidth];   // the vectors of a segment are fetched while a block goes through the one
    OfRows rows[2][kSteps][kSlots];       // before, into one of two places by turns
    float part[kEach][kSteps][kThreads];  // of y
    float change[kEach][kSlots][kSteps];  // of a decay's gradient from step to step
  };

  // Blocks of a row and a head.
  HOST_DEVICE static constexpr int groups(const VectorDecay& given) {
    return ((kKeyRows ? given.key_width : given.value_width) + kRows - 1) / kRows;
  }

  VECTOR_DECAY_INLINE Walk(const Problem& problem, unsigned block, unsigned thread)
      : problem_(problem),
        rows_(kKeyRows ? problem.given.key_width : problem.given.value_width),
        thread_(static_cast<int>(thread)),
        lane_(thread_ % kLanes),
        slot_(thread_ / kLanes) {
    const auto matrices = static_cast<unsigned>(groups(problem.given));
    const unsigned matrix = block / matrices, batch = matrix / static_cast<unsigned>(problem.given.heads);
    first_row_ = static_cast<int>(block % matrices) * kRows + slot_ * kEach;
    head_ = static_cast<int>(matrix % static_cast<unsigned>(problem.given.heads));
    batch_ = batch;
    length_ = static_cast<int>(problem.given.length_B[batch]);
  }

  // The same in all threads of a block.
  VECTOR_DECAY_INLINE int segments() const { return (length_ + kSteps - 1) / kSteps; }
  // The n-th in the order of the walk.
  VECTOR_DECAY_INLINE int segment(int n) const { return kReversed ? segments() - 1 - n : n; }

  // Asks for a segment's vectors: a slot has the columns of every kSlots-th step, a lane one step of its slot's rows.
  VECTOR_DECAY_INLINE void fetch(int segment) {
    const VectorDecay& in = problem_.given;
    VECTOR_DECAY_UNROLL
    for (int s = 0; s < kSteps / kSlots; ++s) {
      const int t = segment * kSteps + s * kSlots + slot_;
      VECTOR_DECAY_UNROLL
      for (int n = 0; n < kPart; ++n) {
        const int j = n * kLanes + lane_;
        OfColumn& column = columns_[s][n];
        if constexpr (kRole == Role::kOutput)
          column = {key(in.key_BTHK, t, j), key(in.query_BTHK, t, j), 0};
        else if constexpr (kRole == Role::kQuery)
          column = {value(in.value_BTHV, t, j), value(problem_.output_gradient_BTHV, t, j), 0};
        else if constexpr (kRole == Role::kValue)
          column = {key(in.query_BTHK, t, j), key(in.key_BTHK, t, j), 0};
        else
          column = {value(problem_.output_gradient_BTHV, t, j), value(in.value_BTHV, t, j), 0};
        if constexpr (!kKeyRows) column.decay = log_decay(t, j);
      }
    }
    if (lane_ >= kSteps) return;
    const int t = segment * kSteps + lane_;
    VECTOR_DECAY_UNROLL
    for (int e = 0; e < kEach; ++e) {
      const int i = first_row_ + e;
      if constexpr (kRole == Role::kOutput)
        rows_of_step_.u[e] = value(in.value_BTHV, t, i);
      else if constexpr (kRole == Role::kQuery)
        rows_of_step_.u[e] = key(in.key_BTHK, t, i);
      else if constexpr (kRole == Role::kValue)
        rows_of_step_.u[e] = value(problem_.output_gradient_BTHV, t, i);
      else
        rows_of_step_.u[e] = key(in.query_BTHK, t, i);
      if constexpr (kKeyRows) rows_of_step_.decay[e] = log_decay(t, i);
      if constexpr (kRole == Role::kKey)
        next_[e] = {key(in.key_BTHK, t, i), rows_of_step_.u[e] * key(problem_.gradient.query_BTHK, t, i), 0};
    }
  }

  // Puts them where all threads find them, when the last reader of the segment before the last is through.
  VECTOR_DECAY_INLINE void stage(int segment, Shared& shared) {
    VECTOR_DECAY_UNROLL
    for (int s = 0; s < kSteps / kSlots; ++s) {
      VECTOR_DECAY_UNROLL
      for (int n = 0; n < kPart; ++n) {
        OfColumn column = columns_[s][n];
        if constexpr (!kKeyRows) column.decay = std::exp(column.decay);
        shared.column[segment % 2][s * kSlots + slot_][n * kLanes + lane_] = column;
      }
    }
    if (lane_ >= kSteps) return;
    OfRows rows = rows_of_step_;
    VECTOR_DECAY_UNROLL
    for (int e = 0; e < kEach; ++e) {
      if constexpr (kKeyRows) rows.decay[e] = std::exp(rows.decay[e]);
      if constexpr (kRole == Role::kKey) {
        staged_[e].key = next_[e].key;
        staged_[e].query_product = next_[e].query_product;
      }
    }
    shared.rows[segment % 2][lane_][slot_] = rows;
  }

  // Goes through the steps of a segment that all have staged.
  VECTOR_DECAY_INLINE void walk(int segment, Shared& shared) {
    VECTOR_DECAY_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      const int s = kReversed ? kSteps - 1 - i : i;
      const OfRows rows = shared.rows[segment % 2][s][slot_];
      float sum[kEach] = {};
      VECTOR_DECAY_UNROLL
      for (int n = 0; n < kPart; ++n) {
        const OfColumn column = shared.column[segment % 2][s][n * kLanes + lane_];
        VECTOR_DECAY_UNROLL
        for (int e = 0; e < kEach; ++e) {
          m_[e][n] = (kKeyRows ? rows.decay[e] : column.decay) * m_[e][n] + rows.u[e] * column.w;
          sum[e] += m_[e][n] * column.x;
        }
      }
      VECTOR_DECAY_UNROLL
      for (int e = 0; e < kEach; ++e) shared.part[e][s][thread_] = sum[e];
    }
  }

  // When a slot's lanes have gone through it: a lane adds up what they left of one step.
  VECTOR_DECAY_INLINE void finish(int segment, Shared& shared) const {
    if (lane_ >= kSteps) return;
    VECTOR_DECAY_UNROLL
    for (int e = 0; e < kEach; ++e) {
      const float* const part = &shared.part[e][lane_][slot_ * kLanes];
      float sum = 0;
      VECTOR_DECAY_UNROLL
      for (int i = 0; i < kLanes; ++i) sum += part[(lane_ + i) % kLanes];  // every lane begins in another bank
      const float y = problem_.given.scale * sum;
      write(y_BTHX(), segment * kSteps + lane_, first_row_ + e, y);
      if constexpr (kRole == Role::kKey) shared.change[e][slot_][lane_] = staged_[e].query_product - staged_[e].key * y;
    }
  }

  // Of kKey, when a slot's lanes have finished: g_t moves what steps from t on read of what was written before it, and
  //   dg_t = sum over s >= t of q_s dq_s - k_s dk_s.
  VECTOR_DECAY_INLINE void finish_decays(int segment, const Shared& shared) {
    static_assert(kRole == Role::kKey);
    const int t = segment * kSteps + lane_;
    VECTOR_DECAY_UNROLL
    for (int e = 0; e < kEach; ++e) {
      float& later = staged_[e].later;
      float own = later;
      VECTOR_DECAY_UNROLL
      for (int s = kSteps - 1; s >= 0; --s) {
        later += shared.change[e][slot_][s];
        if (s == lane_) own = later;
      }
      if (lane_ < kSteps)  // nothing is before the first step
        write(problem_.gradient.log_decay_BTHK, t, first_row_ + e, t == 0 ? 0.0f : own);
    }
  }

  // Zeros behind the row's length; what of it is in the last segment, finish() has written.
  VECTOR_DECAY_INLINE void end() const {
    for (int i = first_row_; i < first_row_ + kEach && i < rows_; ++i)
      for (int t = segments() * kSteps + lane_; t < problem_.given.time; t += kLanes) {
        y_BTHX()[at(t, i, rows_)] = 0;
        if constexpr (kRole == Role::kKey) problem_.gradient.log_decay_BTHK[at(t, i, rows_)] = 0;
      }
  }

 private:
  VECTOR_DECAY_INLINE std::int64_t at(int t, int channel, int width) const {
    return ((static_cast<std::int64_t>(batch_) * problem_.given.time + t) * problem_.given.heads + head_) * width +
           channel;
  }
  VECTOR_DECAY_INLINE float read(const float* x, int t, int channel, int width) const {
    return t < length_ && channel < width ? x[at(t, channel, width)] : 0.0f;
  }
  VECTOR_DECAY_INLINE float key(const float* x_BTHK, int t, int channel) const {
    return read(x_BTHK, t, channel, problem_.given.key_width);
  }
  VECTOR_DECAY_INLINE float value(const float* x_BTHV, int t, int channel) const {
    return read(x_BTHV, t, channel, problem_.given.value_width);
  }
  // Of M on its way to step t: from the step behind it in the walk.
  VECTOR_DECAY_INLINE float log_decay(int t, int channel) const {
    return key(problem_.given.log_decay_BTHK, kReversed ? t + 1 : t, channel);
  }
  VECTOR_DECAY_INLINE float* y_BTHX() const {
    if constexpr (kRole == Role::kOutput) return problem_.output_BTHV;
    if constexpr (kRole == Role::kQuery) return problem_.gradient.query_BTHK;
    if constexpr (kRole == Role::kValue) return problem_.gradient.value_BTHV;
    return problem_.gradient.key_BTHK;
  }
  VECTOR_DECAY_INLINE void write(float* y_BTHX, int t, int i, float y) const {
    if (t < problem_.given.time && i < rows_) y_BTHX[at(t, i, rows_)] = t < length_ ? y : 0.0f;
  }

  // What kKey needs of a row for its decay.
  struct OfDecay {
    float key, query_product;  // k and q dq of the lane's step
    float later;               // dg of the steps behind the segment
  };

  const Problem& problem_;
  int rows_, thread_, lane_, slot_, first_row_, head_, length_;
  unsigned batch_;
  float m_[kEach][kPart] = {};
  // Fetched, then staged.
  OfColumn columns_[kSteps / kSlots][kPart];
  OfRows rows_of_step_{};
  OfDecay next_[kEach] = {}, staged_[kEach] = {};
};

// The loop of a block (kernels/common/block_threads.h).
template <Role kRole, class Threads>
VECTOR_DECAY_INLINE void walk_block(Threads& threads) {
  const int segments = threads.any().segments();
  if (segments > 0) threads.each([](auto& walk, auto&) { walk.fetch(walk.segment(0)); });
  for (int n = 0; n < segments; ++n) {
    const int segment = threads.any().segment(n);
    threads.each([=](auto& walk, auto& shared) { walk.stage(segment, shared); });
    threads.meet();
    threads.each([=](auto& walk, auto& shared) {
      if (n + 1 < segments) walk.fetch(walk.segment(n + 1));
      walk.walk(segment, shared);
    });
    threads.meet_warp();
    threads.each([=](auto& walk, auto& shared) { walk.finish(segment, shared); });
    threads.meet_warp();
    if constexpr (kRole == Role::kKey)
      threads.each([=](auto& walk, auto& shared) { walk.finish_decays(segment, shared); });
  }
  threads.each([](auto& walk, auto&) { walk.end(); });
}

}  // namespace engram::vector_decay
