// What one thread does with Stable Hadamard Memory, compiled for the GPU and for the CPU, where the tests let the
// threads of a block take turns.
//
// kLanes threads beside each other have the columns of one row of M, kColumns each: j = lane, lane + kLanes and so on.
// Time is cut into segments of kSteps steps. Two kinds of walk go along whole rows, with a row of M a group of lanes:
//   ForwardWalk   M before each segment, and every h
//   GradientSweep the gradient of M behind each segment: that by later steps
// and what is between two such matrices is found for all segments at once:
//   SegmentWalk   the gradients of a segment's vectors
// The .cu file says what a block waits for between two calls.
//
// Behind a row's length, and beyond the last row and column, vectors are zero: C is 1 there and M stays what it is.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/host_device.h"
#include "kernels/common/fast_math.h"
#include "kernels/fast_weights/hadamard_memory/hadamard_memory.h"

#if defined(__CUDA_ARCH__)
#define HADAMARD_UNROLL _Pragma("unroll")
#define HADAMARD_ROLLED _Pragma("unroll 1")
#else
#define HADAMARD_UNROLL
#define HADAMARD_ROLLED
#endif
#define HADAMARD_INLINE [[gnu::always_inline]] HOST_DEVICE inline

namespace engram::hadamard_memory {

constexpr int kSteps = 8;   // of a segment
constexpr int kLanes = 16;  // that have a row of M

HOST_DEVICE constexpr int segments_of(int steps) { return (steps + kSteps - 1) / kSteps; }

// Calls function(columns of a thread) with the smallest number that holds M, as a constant.
template <class Function>
void with_columns(int width, const Function& function) {
  if (width <= 2 * kLanes)
    function(std::integral_constant<int, 2>{});
  else if (width <= 3 * kLanes)
    function(std::integral_constant<int, 3>{});
  else if (width <= 4 * kLanes)
    function(std::integral_constant<int, 4>{});
  else
    function(std::integral_constant<int, kMaxHadamardMemoryWidth / kLanes>{});
}

// What the forward pass keeps of each segment.
template <class Matrix, class Bits>
struct CheckpointsOf {
  Matrix* before_BSHH;  // M before it; null: nothing is kept
  Bits* kept_BSHH;      // whether the bound left an element as it was, a bit a step, the first step's the lowest
};
using Checkpoints = CheckpointsOf<float, std::uint8_t>;
using GivenCheckpoints = CheckpointsOf<const float, const std::uint8_t>;
static_assert(kSteps <= 8);  // bits

struct ForwardProblem {
  HadamardMemory memory;
  float *h_BTH, *last_BHH;
  Checkpoints checkpoints;
};
struct BackwardProblem {
  HadamardMemory memory;
  GivenCheckpoints checkpoints;
  const float *h_gradient_BTH, *last_gradient_BHH;  // as in HadamardMemoryOutput
  HadamardMemoryGradient gradient;
  float* behind_BSHH;  // the gradient of M behind each segment
};

// What a step brings to a column and to a row of M.
struct alignas(16) OfColumn {
  float c, key, query;
};
struct alignas(16) OfRow {
  float theta, value, h_gradient;
};

// An element of C is 1 + tanh(x) = 1 / (1/2 + 2^y) with y = -2 log2(e) x - 1: from 0 to 2, and exactly 1 where x is 0.
HADAMARD_INLINE float exponent_of(float theta) { return -2.885390081777927f * theta; }
HADAMARD_INLINE float calibration(float exponent, float c) {
  const float y = exponent * c - 1.0f;
  return fast_reciprocal(0.5f + fast_exp2(y));
}

// Whether an element is within the limit, and what it becomes. A NaN is left alone.
HADAMARD_INLINE bool is_kept(float m, float limit) { return !(m > limit || m < -limit); }
HADAMARD_INLINE float bounded(float m, float limit) { return m > limit ? limit : m < -limit ? -limit : m; }

// The sum of what kLanes threads left beside each other. Each lane begins at another one: all banks are read at once.
HADAMARD_INLINE float sum_of_lanes(const float* first, int lane) {
  float sum = 0;
  HADAMARD_UNROLL
  for (int i = 0; i < kLanes; ++i) sum += first[(lane + i) % kLanes];
  return sum;
}

// Where the tensors of a row begin, and what is read of them.
class Sequence {
 public:
  HADAMARD_INLINE Sequence(const HadamardMemory& memory, unsigned row)
      : memory_(memory), row_(row), length_(static_cast<int>(memory.length_B[row])) {}

  HADAMARD_INLINE int width() const { return memory_.width; }
  HADAMARD_INLINE int time() const { return memory_.time; }
  HADAMARD_INLINE int length() const { return length_; }

  HADAMARD_INLINE std::int64_t vector(int t) const { return (row_ * memory_.time + t) * memory_.width; }
  HADAMARD_INLINE std::int64_t matrix(int i) const { return (row_ * memory_.width + i) * memory_.width; }
  HADAMARD_INLINE std::int64_t checkpoint(int segment, int i) const {
    return ((row_ * segments_of(memory_.time) + segment) * memory_.width + i) * memory_.width;
  }

  // Those of a lane.
  template <int kColumns>
  HADAMARD_INLINE void load_columns(int t, int lane, OfColumn (&column)[kColumns]) const {
    const std::int64_t first = vector(t) + lane;
    HADAMARD_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      const std::int64_t at = first + n * kLanes;
      const bool is_read = t < length_ && n * kLanes + lane < memory_.width;
      column[n].c = is_read ? memory_.c_BTH[at] : 0.0f;
      column[n].key = is_read ? memory_.key_BTH[at] : 0.0f;
      column[n].query = is_read ? memory_.query_BTH[at] : 0.0f;
    }
  }
  // h_gradient_BTH: null: not wanted.
  HADAMARD_INLINE OfRow row(int t, int i, const float* h_gradient_BTH) const {
    if (t >= length_ || i >= memory_.width) return {};
    const std::int64_t at = vector(t) + i;
    return {memory_.theta_BTH[at], memory_.value_BTH[at], h_gradient_BTH == nullptr ? 0.0f : h_gradient_BTH[at]};
  }

 private:
  const HadamardMemory& memory_;
  std::int64_t row_;
  int length_;
};

// What both walks along a row have in common. A block has kRows rows of one M. The vectors of a segment are fetched
// while it goes through the one before, into one of two places by turns.
template <int kColumns>
class Sweep {
 public:
  static constexpr int kRows = 8, kThreads = kRows * kLanes, kWidth = kLanes * kColumns;
  struct Shared {
    OfColumn column[2][kSteps][kWidth];
    OfRow row[2][kSteps][kRows];
    float part[kSteps][kThreads];  // of h
  };

  // Blocks of a row.
  HOST_DEVICE static constexpr int groups(int width) { return (width + kRows - 1) / kRows; }
  // The same in all threads of a block.
  HADAMARD_INLINE int segments() const { return segments_of(sequence_.length()); }

  // A group of lanes has the columns of one step in this.
  HADAMARD_INLINE void fetch(int segment) {
    static_assert(kRows == kSteps);
    sequence_.load_columns(segment * kSteps + own_, lane_, next_column_);
    if (lane_ < kRows) next_row_ = sequence_.row(segment * kSteps + own_, first_row_ + lane_, h_gradient_BTH_);
  }
  HADAMARD_INLINE void stage(int segment, Shared& shared) const {
    HADAMARD_UNROLL
    for (int n = 0; n < kColumns; ++n) shared.column[segment % 2][own_][n * kLanes + lane_] = next_column_[n];
    if (lane_ < kRows) shared.row[segment % 2][own_][lane_] = next_row_;
  }

 protected:
  HADAMARD_INLINE Sweep(const HadamardMemory& memory, const float* h_gradient_BTH, unsigned block, unsigned thread)
      : sequence_(memory, block / static_cast<unsigned>(groups(memory.width))),
        h_gradient_BTH_(h_gradient_BTH),
        thread_(static_cast<int>(thread)),
        lane_(thread_ % kLanes),
        first_row_(static_cast<int>(block % static_cast<unsigned>(groups(memory.width))) * kRows),
        own_(thread_ / kLanes),
        row_(first_row_ + own_) {}

  HADAMARD_INLINE bool inside(int n) const {
    return row_ < sequence_.width() && n * kLanes + lane_ < sequence_.width();
  }
  // The thread's elements of a row of a matrix, which begins at `at`.
  template <class Element>
  HADAMARD_INLINE void load(const Element* matrix, std::int64_t at, Element (&x)[kColumns]) const {
    HADAMARD_UNROLL
    for (int n = 0; n < kColumns; ++n) x[n] = inside(n) ? matrix[at + n * kLanes + lane_] : Element{};
  }
  template <class Element>
  HADAMARD_INLINE void store(const Element (&x)[kColumns], Element* matrix, std::int64_t at) const {
    HADAMARD_UNROLL
    for (int n = 0; n < kColumns; ++n)
      if (inside(n)) matrix[at + n * kLanes + lane_] = x[n];
  }

  const Sequence sequence_;
  const float* h_gradient_BTH_;
  int thread_, lane_;
  int first_row_, own_, row_;  // of the block; the thread's in the block; the thread's

 private:
  OfColumn next_column_[kColumns];
  OfRow next_row_{};
};

template <int kColumns>
class ForwardWalk : public Sweep<kColumns> {
  using Base = Sweep<kColumns>;

 public:
  using typename Base::Shared;

  HADAMARD_INLINE ForwardWalk(const ForwardProblem& problem, unsigned block, unsigned thread)
      : Base(problem.memory, /*h_gradient_BTH=*/nullptr, block, thread), problem_(problem) {
    this->load(problem.memory.first_BHH, this->sequence_.matrix(this->row_), m_);
  }

  HADAMARD_INLINE void walk(int segment, Shared& shared) {
    const std::int64_t checkpoint = this->sequence_.checkpoint(segment, this->row_);
    const Checkpoints& checkpoints = problem_.checkpoints;
    const float limit = problem_.memory.limit;
    if (checkpoints.before_BSHH != nullptr) this->store(m_, checkpoints.before_BSHH, checkpoint);
    std::uint8_t kept[kColumns] = {};
    HADAMARD_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      const OfRow row = shared.row[segment % 2][s][this->own_];
      const float exponent = exponent_of(row.theta);
      float part = 0;
      HADAMARD_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        const OfColumn column = shared.column[segment % 2][s][n * kLanes + this->lane_];
        const float m = m_[n] * calibration(exponent, column.c) + row.value * column.key;
        kept[n] |= static_cast<std::uint8_t>(is_kept(m, limit) << s);
        m_[n] = bounded(m, limit);
        part += m_[n] * column.query;
      }
      shared.part[s][this->thread_] = part;
    }
    if (checkpoints.before_BSHH != nullptr) this->store(kept, checkpoints.kept_BSHH, checkpoint);
  }

  // When all lanes of the row have walked through the segment.
  HADAMARD_INLINE void finish(int segment, const Shared& shared) const {
    const int t = segment * kSteps + this->lane_;
    if (this->lane_ >= kSteps || t >= this->sequence_.time() || this->row_ >= this->sequence_.width()) return;
    const float h = sum_of_lanes(&shared.part[this->lane_][this->own_ * kLanes], this->lane_);
    problem_.h_BTH[this->sequence_.vector(t) + this->row_] = t < this->sequence_.length() ? h : 0.0f;
  }

  HADAMARD_INLINE void end() const {
    this->store(m_, problem_.last_BHH, this->sequence_.matrix(this->row_));
    if (this->row_ >= this->sequence_.width()) return;
    for (int t = this->segments() * kSteps + this->lane_; t < this->sequence_.time(); t += kLanes)
      problem_.h_BTH[this->sequence_.vector(t) + this->row_] = 0;
  }

 private:
  const ForwardProblem& problem_;
  float m_[kColumns];
};

// From the last segment to the first with E_{t-1} = C_t * (E_t + dh_t q_t^T), the gradient that reaches M_{t-1}; 0
// where the bound changed M_t.
template <int kColumns>
class GradientSweep : public Sweep<kColumns> {
  using Base = Sweep<kColumns>;

 public:
  using typename Base::Shared;

  HADAMARD_INLINE GradientSweep(const BackwardProblem& problem, unsigned block, unsigned thread)
      : Base(problem.memory, problem.h_gradient_BTH, block, thread), problem_(problem) {
    if (problem.last_gradient_BHH != nullptr)
      this->load(problem.last_gradient_BHH, this->sequence_.matrix(this->row_), e_);
  }

  HADAMARD_INLINE void fetch(int segment) {
    Base::fetch(segment);
    this->load(problem_.checkpoints.kept_BSHH, this->sequence_.checkpoint(segment, this->row_), next_kept_);
  }
  HADAMARD_INLINE void stage(int segment, Shared& shared) {
    Base::stage(segment, shared);
    HADAMARD_UNROLL
    for (int n = 0; n < kColumns; ++n) kept_[n] = next_kept_[n];
  }

  HADAMARD_INLINE void walk(int segment, const Shared& shared) {
    this->store(e_, problem_.behind_BSHH, this->sequence_.checkpoint(segment, this->row_));
    HADAMARD_UNROLL
    for (int s = kSteps - 1; s >= 0; --s) {
      const OfRow row = shared.row[segment % 2][s][this->own_];
      const float exponent = exponent_of(row.theta);
      HADAMARD_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        const OfColumn column = shared.column[segment % 2][s][n * kLanes + this->lane_];
        const float g = e_[n] + row.h_gradient * column.query;
        e_[n] = (kept_[n] >> s & 1) != 0 ? calibration(exponent, column.c) * g : 0.0f;
      }
    }
  }

  HADAMARD_INLINE void end() const { this->store(e_, problem_.gradient.first_BHH, this->sequence_.matrix(this->row_)); }

 private:
  const BackwardProblem& problem_;
  float e_[kColumns] = {};
  std::uint8_t kept_[kColumns], next_kept_[kColumns];
};

// A block has one segment of one row, and goes through M in passes of kPass rows: kSlots groups of lanes with kRows
// rows each.
template <int kColumns>
class SegmentWalk {
 public:
  // Rows of a thread: as many as shared memory of 99 KiB has room for.
  static constexpr int kRows = kColumns > 4 ? 2 : 4, kSlots = 4, kPass = kRows * kSlots;
  static constexpr int kThreads = kSlots * kLanes, kWidth = kLanes * kColumns, kElements = kRows * kColumns;
  // A thread's sums over columns, of each step: of v's gradient and of theta's, for each row.
  static constexpr int kSums = 2 * kRows;
  static_assert(kSums <= kElements);
  enum Vector { kQuery, kKey, kC, kVectors };  // whose gradients are sums over rows

  struct Shared {
    OfColumn column[kSteps][kWidth];
    OfRow row[kSteps][kPass];
    float history[kSteps][kElements][kThreads];        // M before each step; then, in its place, kSums sums
    float part[kSteps][kVectors][kColumns][kThreads];  // the threads' sums over rows, of all passes so far
  };

  HADAMARD_INLINE SegmentWalk(const BackwardProblem& problem, unsigned block, unsigned thread)
      : problem_(problem),
        sequence_(problem.memory, block / static_cast<unsigned>(segments_of(problem.memory.time))),
        segment_(static_cast<int>(block % static_cast<unsigned>(segments_of(problem.memory.time)))),
        thread_(static_cast<int>(thread)),
        lane_(thread_ % kLanes),
        slot_(thread_ / kLanes) {}

  // The same in all threads of a block.
  HADAMARD_INLINE bool is_behind() const { return step(0) >= sequence_.length(); }
  HADAMARD_INLINE int passes() const { return (sequence_.width() + kPass - 1) / kPass; }

  // Of a segment behind the row's length.
  HADAMARD_INLINE void write_zero() const {
    const HadamardMemoryGradient& gradient = problem_.gradient;
    for (int s = 0; s < kSteps && step(s) < sequence_.time(); ++s)
      for (int j = thread_; j < sequence_.width(); j += kThreads)
        for (float* const x_BTH :
             {gradient.theta_BTH, gradient.c_BTH, gradient.value_BTH, gradient.key_BTH, gradient.query_BTH})
          x_BTH[sequence_.vector(step(s)) + j] = 0;
  }

  HADAMARD_INLINE void stage_columns(Shared& shared) const {
    HADAMARD_UNROLL
    for (int s = slot_; s < kSteps; s += kSlots) {
      OfColumn column[kColumns];
      sequence_.load_columns(step(s), lane_, column);
      HADAMARD_UNROLL
      for (int n = 0; n < kColumns; ++n) shared.column[s][n * kLanes + lane_] = column[n];
    }
  }

  // Stages the pass's rows and asks for the matrices at either end of the segment.
  HADAMARD_INLINE void begin(int pass, Shared& shared) {
    HADAMARD_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t first = sequence_.checkpoint(segment_, row(pass, r)) + lane_;
      HADAMARD_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        const bool inside = row(pass, r) < sequence_.width() && n * kLanes + lane_ < sequence_.width();
        const int element = r * kColumns + n;
        m_[element] = inside ? problem_.checkpoints.before_BSHH[first + n * kLanes] : 0.0f;
        kept_[element] = inside ? problem_.checkpoints.kept_BSHH[first + n * kLanes] : std::uint8_t{};
        e_[element] = inside ? problem_.behind_BSHH[first + n * kLanes] : 0.0f;
      }
    }
    static_assert(kPass <= kLanes);
    HADAMARD_UNROLL
    for (int s = slot_; s < kSteps; s += kSlots)
      if (lane_ < kPass) shared.row[s][lane_] = sequence_.row(step(s), pass * kPass + lane_, problem_.h_gradient_BTH);
  }

  // M before each step, and behind the last.
  HADAMARD_INLINE void recompute(Shared& shared) {
    HADAMARD_ROLLED
    for (int s = 0; s < kSteps; ++s) {
      OfColumn column[kColumns];
      load_columns(s, shared, column);
      HADAMARD_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const OfRow row = shared.row[s][slot_ * kRows + r];
        const float exponent = exponent_of(row.theta);
        HADAMARD_UNROLL
        for (int n = 0; n < kColumns; ++n) {
          float& m = m_[r * kColumns + n];
          shared.history[s][r * kColumns + n][thread_] = m;
          m = bounded(m * calibration(exponent, column[n].c) + row.value * column[n].key, problem_.memory.limit);
        }
      }
    }
  }

  // From the last step to the first, with G_t = E_t + dh_t q_t^T the whole gradient of M_t, of what the bound left
  // alone.
  HADAMARD_INLINE void back(int pass, Shared& shared) {
    HADAMARD_ROLLED
    for (int s = kSteps - 1; s >= 0; --s) {
      OfColumn column[kColumns];
      load_columns(s, shared, column);
      float of_row[kSums] = {}, of_column[kVectors][kColumns] = {};
      HADAMARD_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const OfRow row = shared.row[s][slot_ * kRows + r];
        const float exponent = exponent_of(row.theta);
        HADAMARD_UNROLL
        for (int n = 0; n < kColumns; ++n) {
          float &m = m_[r * kColumns + n], &e = e_[r * kColumns + n];
          const float before = shared.history[s][r * kColumns + n][thread_];
          const float factor = calibration(exponent, column[n].c);
          const bool kept = (kept_[r * kColumns + n] >> s & 1) != 0;
          const float g = kept ? e + row.h_gradient * column[n].query : 0.0f;
          const float d_product = g * before * (factor * (2.0f - factor));  // of theta c; 1 - tanh^2 = C (2 - C)
          of_column[kQuery][n] += row.h_gradient * m;
          of_column[kKey][n] += g * row.value;
          of_column[kC][n] += d_product * row.theta;
          of_row[2 * r] += g * column[n].key;
          of_row[2 * r + 1] += d_product * column[n].c;
          e = factor * g;
          m = before;
        }
      }
      HADAMARD_UNROLL
      for (int i = 0; i < kSums; ++i) shared.history[s][i][thread_] = of_row[i];
      HADAMARD_UNROLL
      for (int vector = 0; vector < kVectors; ++vector) {
        HADAMARD_UNROLL
        for (int n = 0; n < kColumns; ++n) {
          float& part = shared.part[s][vector][n][thread_];
          part = pass == 0 ? of_column[vector][n] : part + of_column[vector][n];
        }
      }
    }
  }

  // When all threads have gone back through the pass. A lane has one of its group's sums, of every few steps.
  HADAMARD_INLINE void finish_rows(int pass, const Shared& shared) const {
    static_assert(kLanes % kSums == 0);
    const int sum = lane_ % kSums, i = row(pass, sum / 2);
    if (i >= sequence_.width()) return;
    float* const x_BTH = sum % 2 == 0 ? problem_.gradient.value_BTH : problem_.gradient.theta_BTH;
    HADAMARD_UNROLL
    for (int n = 0; n < kSteps * kSums / kLanes; ++n) {
      const int s = lane_ / kSums + n * (kLanes / kSums);
      write(x_BTH, s, i, sum_of_lanes(&shared.history[s][sum][slot_ * kLanes], lane_));
    }
  }
  // And through the last. A group of lanes has every few steps.
  HADAMARD_INLINE void finish_columns(const Shared& shared) const {
    float* const gradient[kVectors] = {problem_.gradient.query_BTH, problem_.gradient.key_BTH, problem_.gradient.c_BTH};
    HADAMARD_ROLLED
    for (int s = slot_; s < kSteps; s += kSlots) {
      HADAMARD_UNROLL
      for (int vector = 0; vector < kVectors; ++vector) {
        HADAMARD_UNROLL
        for (int n = 0; n < kColumns; ++n) {
          float total = 0;
          HADAMARD_UNROLL
          for (int slot = 0; slot < kSlots; ++slot) total += shared.part[s][vector][n][slot * kLanes + lane_];
          if (n * kLanes + lane_ < sequence_.width()) write(gradient[vector], s, n * kLanes + lane_, total);
        }
      }
    }
  }

 private:
  HADAMARD_INLINE int step(int s) const { return segment_ * kSteps + s; }
  HADAMARD_INLINE int row(int pass, int r) const { return pass * kPass + slot_ * kRows + r; }
  HADAMARD_INLINE void load_columns(int s, const Shared& shared, OfColumn (&column)[kColumns]) const {
    HADAMARD_UNROLL
    for (int n = 0; n < kColumns; ++n) column[n] = shared.column[s][n * kLanes + lane_];
  }
  HADAMARD_INLINE void write(float* x_BTH, int s, int channel, float value) const {
    if (step(s) < sequence_.time())
      x_BTH[sequence_.vector(step(s)) + channel] = step(s) < sequence_.length() ? value : 0.0f;
  }

  const BackwardProblem& problem_;
  const Sequence sequence_;
  int segment_, thread_, lane_, slot_;
  float m_[kElements], e_[kElements];  // M behind the step, and its gradient by later steps
  std::uint8_t kept_[kElements];       // of the segment
};

// The loops of a block (kernels/common/block_threads.h): of ForwardWalk, GradientSweep and SegmentWalk.
template <class Threads>
HADAMARD_INLINE void walk_forward(Threads& threads) {
  const int segments = threads.any().segments();
  if (segments > 0) threads.each([](auto& walk, auto&) { walk.fetch(0); });
  for (int segment = 0; segment < segments; ++segment) {
    threads.each([=](auto& walk, auto& shared) { walk.stage(segment, shared); });
    threads.meet();
    threads.each([=](auto& walk, auto& shared) {
      if (segment + 1 < segments) walk.fetch(segment + 1);
      walk.walk(segment, shared);
    });
    threads.meet_warp();
    threads.each([=](auto& walk, auto& shared) { walk.finish(segment, shared); });
  }
  threads.each([](auto& walk, auto&) { walk.end(); });
}

template <class Threads>
HADAMARD_INLINE void sweep_gradient(Threads& threads) {
  const int segments = threads.any().segments();
  if (segments > 0) threads.each([=](auto& sweep, auto&) { sweep.fetch(segments - 1); });
  for (int segment = segments - 1; segment >= 0; --segment) {
    threads.each([=](auto& sweep, auto& shared) { sweep.stage(segment, shared); });
    threads.meet();
    threads.each([=](auto& sweep, auto& shared) {
      if (segment > 0) sweep.fetch(segment - 1);
      sweep.walk(segment, shared);
    });
  }
  threads.each([](auto& sweep, auto&) { sweep.end(); });
}

template <class Threads>
HADAMARD_INLINE void walk_segment(Threads& threads) {
  if (threads.any().is_behind()) {
    threads.each([](auto& walk, auto&) { walk.write_zero(); });
    return;
  }
  threads.each([](auto& walk, auto& shared) { walk.stage_columns(shared); });
  const int passes = threads.any().passes();
  for (int pass = 0; pass < passes; ++pass) {
    threads.each([=](auto& walk, auto& shared) { walk.begin(pass, shared); });
    threads.meet();
    threads.each([=](auto& walk, auto& shared) {
      walk.recompute(shared);
      walk.back(pass, shared);
    });
    threads.meet();
    threads.each([=](auto& walk, auto& shared) { walk.finish_rows(pass, shared); });
  }
  threads.each([](auto& walk, auto& shared) { walk.finish_columns(shared); });
}

}  // namespace engram::hadamard_memory
