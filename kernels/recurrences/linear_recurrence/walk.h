// What one thread does while its block walks along a row, forward or backward, compiled for the GPU and for the CPU,
// where the tests let the threads of a block take turns.
//
// A block has kLanes units of one row, and goes through time in tiles. A tile's steps are divided among slots, each of
// kSteps steps one after another; thread = slot * kLanes + lane. For every tile:
//   take()      what was asked for before; then fetch() of the next tile, which is under way during all that follows
//   stretch()   the thread's steps as one: h after them = product * h before them + sum; shared with the block
//   finish()    from the stretches of the slots before it h where the thread's steps begin, then these steps one by one
// The tile's last h, which the next tile begins with, every thread finds by itself, from the same numbers.
//
// Steps that are not read, beyond a row's length or of no unit, have a = 1 and b = 0 and so leave h as it is.
#pragma once

#include <cstdint>

#include "kernels/recurrences/linear_recurrence/numbers.h"

#if defined(__CUDA_ARCH__)
#define RECURRENCE_UNROLL _Pragma("unroll")
#else
#define RECURRENCE_UNROLL
#endif
#define RECURRENCE_INLINE [[gnu::always_inline]] HOST_DEVICE inline

namespace engram::recurrence {

constexpr int kThreads = 256;  // of a block

// The tensors in units. Of a_BTU and a_U one is used.
template <class Unit>
struct Rows {
  int time, units;
  const typename Unit::Stored* a_BTU;
  const typename Unit::Value* a_U;
  const typename Unit::Value* h0_BU;
  const std::int64_t* length_B;

  // Blocks of a row.
  HOST_DEVICE int groups() const { return (units + Unit::kLanes - 1) / Unit::kLanes; }
};
template <class Unit>
struct ForwardProblem {
  Rows<Unit> rows;
  const typename Unit::Stored* b_BTU;
  typename Unit::Stored* h_BTU;
  typename Unit::Value* last_BU;  // null: not wanted
};
template <class Unit>
struct BackwardProblem {
  Rows<Unit> rows;
  const typename Unit::Stored *h_BTU, *d_h_BTU;
  const typename Unit::Value* d_last_BU;  // null: zero
  typename Unit::Stored *d_a_BTU, *d_b_BTU;
  typename Unit::Value *d_a_BU, *d_h0_BU;  // d_a_BU: of a constant a, the sum over time
};

// Several steps as one.
template <class Value>
struct alignas(2 * sizeof(Value)) Stretch {
  Value product, sum;
  RECURRENCE_INLINE Value after(Value before) const { return product_plus(product, before, sum); }
};

// Of a block. Two tiles by turns: a thread may write the next tile's stretch while others still read this one's.
template <class Value>
struct Shared {
  Stretch<Value> stretches[2][kThreads];
};

// What both directions have in common: where the thread stands, the a's of its steps, and h or its gradient where the
// tile begins.
template <class Unit, bool kConstant, int kStepsOfThread>
class Walk {
 public:
  using Stored = typename Unit::Stored;
  using Value = typename Unit::Value;
  static constexpr int kSteps = kStepsOfThread, kSlots = kThreads / Unit::kLanes, kTile = kSlots * kSteps;

  HOST_DEVICE static int tiles(int time) { return (time + kTile - 1) / kTile; }

 protected:
  RECURRENCE_INLINE Walk(const Rows<Unit>& rows, unsigned block, unsigned thread)
      : a_BTU_(rows.a_BTU),
        units_(rows.units),
        lane_(static_cast<int>(thread) % Unit::kLanes),
        slot_(static_cast<int>(thread) / Unit::kLanes) {
    const int row = static_cast<int>(block) / rows.groups();
    const int unit = static_cast<int>(block) % rows.groups() * Unit::kLanes + lane_;
    inside_ = unit < rows.units;
    state_ = std::int64_t{row} * rows.units + unit;
    first_ = std::int64_t{row} * rows.time * rows.units + unit;
    time_ = inside_ ? rows.time : 0;
    length_ = !inside_ ? 0 : rows.length_B == nullptr ? rows.time : static_cast<int>(rows.length_B[row]);
    if constexpr (kConstant) constant_ = inside_ ? rows.a_U[unit] : Unit::one();
  }

  RECURRENCE_INLINE int thread() const { return slot_ * Unit::kLanes + lane_; }
  // The thread's first step of a tile; where it lies in [B, T, U]; whether this and all its steps are read.
  RECURRENCE_INLINE int begin(int tile) const { return tile * kTile + slot_ * kSteps; }
  RECURRENCE_INLINE std::int64_t offset(int begin) const { return first_ + std::int64_t{begin} * units_; }
  RECURRENCE_INLINE bool is_full(int begin) const { return begin + kSteps <= length_; }
  // kFull: all are, which saves asking. So it is with most.
  template <bool kFull>
  RECURRENCE_INLINE bool is_read(int begin, int i) const {
    return kFull || begin + i < length_;
  }
  template <bool kFull>
  RECURRENCE_INLINE bool is_written(int begin, int i) const {
    return kFull || begin + i < time_;
  }

  RECURRENCE_INLINE void fetch_factor(int i, bool read, std::int64_t at) {
    if constexpr (!kConstant) next_a_[i] = read ? a_BTU_[at] : Unit::stored(Unit::one());
  }
  RECURRENCE_INLINE void take_factor(int i) {
    if constexpr (!kConstant) a_[i] = next_a_[i];
  }
  template <bool kFull>
  RECURRENCE_INLINE Value factor(int begin, int i) const {
    if constexpr (kConstant)
      return is_read<kFull>(begin, i) ? constant_ : Unit::one();
    else
      return Unit::value(a_[i]);
  }

  // From the carry, through the tile's stretches in the order of slots or against it: where this thread's begins; the
  // carry is then where the last one ends.
  template <bool kBackward>
  RECURRENCE_INLINE Value carry_through(const Stretch<Value>* stretches) {
    Value own = carry_;
    RECURRENCE_UNROLL
    for (int i = 0; i < kSlots; ++i) {
      const int slot = kBackward ? kSlots - 1 - i : i;
      if (slot == slot_) own = carry_;
      carry_ = stretches[slot * Unit::kLanes + lane_].after(carry_);
    }
    return own;
  }

  const Stored* a_BTU_;
  int units_, lane_, slot_;
  bool inside_;         // there is such a unit
  std::int64_t state_;  // of the unit, in [B, U]
  std::int64_t first_;  // of its first step, in [B, T, U]
  int time_, length_;   // steps that are written, and read; 0 where there is no unit
  Value carry_;

 private:
  static constexpr int kStored = kConstant ? 1 : kSteps;
  Value constant_;
  Stored a_[kStored], next_a_[kStored];
};

template <class Unit, bool kConstant>
class ForwardWalk : public Walk<Unit, kConstant, Unit::kForwardSteps> {
  using Base = Walk<Unit, kConstant, Unit::kForwardSteps>;

 public:
  using Base::kSteps;
  using typename Base::Stored, typename Base::Value;

  RECURRENCE_INLINE ForwardWalk(const ForwardProblem<Unit>& problem, unsigned block, unsigned thread)
      : Base(problem.rows, block, thread), b_BTU_(problem.b_BTU), h_BTU_(problem.h_BTU), last_BU_(problem.last_BU) {
    this->carry_ = this->inside_ ? problem.rows.h0_BU[this->state_] : Value{};
  }

  RECURRENCE_INLINE void fetch(int tile) {
    const int begin = this->begin(tile);
    if (this->is_full(begin))
      fetch_steps<true>(begin);
    else
      fetch_steps<false>(begin);
  }
  RECURRENCE_INLINE void take() {
    RECURRENCE_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      this->take_factor(i);
      b_[i] = next_b_[i];
    }
  }

  RECURRENCE_INLINE Stretch<Value> stretch(int tile) const {
    const int begin = this->begin(tile);
    Stretch<Value> steps{Unit::one(), {}};
    RECURRENCE_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      const Value a = this->template factor<false>(begin, i);
      steps = {product(a, steps.product), product_plus(a, steps.sum, Unit::value(b_[i]))};
    }
    return steps;
  }

  RECURRENCE_INLINE void share(int tile, Shared<Value>& shared) const {
    shared.stretches[tile % 2][this->thread()] = stretch(tile);
  }
  RECURRENCE_INLINE void finish(int tile, const Shared<Value>& shared) {
    const int begin = this->begin(tile);
    Value h = this->template carry_through<false>(shared.stretches[tile % 2]);
    h = this->is_full(begin) ? finish_steps<true>(begin, h) : finish_steps<false>(begin, h);
    // Steps that are not read have left h as it was after the last one; an empty row has it at its first step.
    const int last = this->length_ > 0 ? this->length_ - 1 : 0;
    if (last_BU_ != nullptr && this->inside_ && begin <= last && last < begin + kSteps) last_BU_[this->state_] = h;
  }

 private:
  template <bool kFull>
  RECURRENCE_INLINE void fetch_steps(int begin) {
    const std::int64_t offset = this->offset(begin);
    RECURRENCE_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      const bool read = this->template is_read<kFull>(begin, i);
      const std::int64_t at = offset + std::int64_t{i} * this->units_;
      this->fetch_factor(i, read, at);
      next_b_[i] = read ? b_BTU_[at] : Unit::stored(Value{});
    }
  }
  // Of h before the first of them; returns h after the last.
  template <bool kFull>
  RECURRENCE_INLINE Value finish_steps(int begin, Value h) {
    const std::int64_t offset = this->offset(begin);
    RECURRENCE_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      h = product_plus(this->template factor<kFull>(begin, i), h, Unit::value(b_[i]));
      if (this->template is_written<kFull>(begin, i))
        h_BTU_[offset + std::int64_t{i} * this->units_] =
            Unit::stored(this->template is_read<kFull>(begin, i) ? h : Value{});
    }
    return h;
  }

  const Stored* b_BTU_;
  Stored* h_BTU_;
  Value* last_BU_;
  Stored b_[kSteps], next_b_[kSteps];
};

// From the last step to the first with e_t = conj(a_t) (dh_t + e_{t+1}), the gradient that reaches h_{t-1}.
template <class Unit, bool kConstant>
class BackwardWalk : public Walk<Unit, kConstant, Unit::kBackwardSteps> {
  using Base = Walk<Unit, kConstant, Unit::kBackwardSteps>;

 public:
  using Base::kSteps;
  using typename Base::Stored, typename Base::Value;

  RECURRENCE_INLINE BackwardWalk(const BackwardProblem<Unit>& problem, unsigned block, unsigned thread)
      : Base(problem.rows, block, thread), problem_(problem) {
    const bool has_last = this->inside_ && problem.d_last_BU != nullptr;
    this->carry_ = has_last ? problem.d_last_BU[this->state_] : Value{};
    h0_ = this->inside_ ? problem.rows.h0_BU[this->state_] : Value{};
  }

  RECURRENCE_INLINE void fetch(int tile) {
    const int begin = this->begin(tile);
    if (this->is_full(begin))
      fetch_steps<true>(begin);
    else
      fetch_steps<false>(begin);
  }
  RECURRENCE_INLINE void take() {
    RECURRENCE_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      this->take_factor(i);
      d_h_[i] = next_d_h_[i];
      before_[i] = next_before_[i];
    }
  }

  RECURRENCE_INLINE Stretch<Value> stretch(int tile) const {
    const int begin = this->begin(tile);
    Stretch<Value> steps{Unit::one(), {}};
    RECURRENCE_UNROLL
    for (int i = kSteps - 1; i >= 0; --i) {
      const Value a = conjugate(this->template factor<false>(begin, i));
      steps = {product(a, steps.product), product(a, sum(steps.sum, Unit::value(d_h_[i])))};
    }
    return steps;
  }

  RECURRENCE_INLINE void share(int tile, Shared<Value>& shared) const {
    shared.stretches[tile % 2][this->thread()] = stretch(tile);
  }
  RECURRENCE_INLINE void finish(int tile, const Shared<Value>& shared) {
    const int begin = this->begin(tile);
    Value e = this->template carry_through<true>(shared.stretches[tile % 2]);
    e = this->is_full(begin) ? finish_steps<true>(begin, e) : finish_steps<false>(begin, e);
    if (begin == 0 && this->inside_) problem_.d_h0_BU[this->state_] = e;
  }

  // Of a constant a, after the last tile: the thread's part of its gradient, in the place that the tile before the last
  // was shared in; and then the first slot's sum of all parts.
  RECURRENCE_INLINE void share_part(Shared<Value>& shared) const { shared.stretches[1][this->thread()].sum = d_a_; }
  RECURRENCE_INLINE void finish_constant(const Shared<Value>& shared) const {
    if (this->slot_ != 0 || !this->inside_) return;
    Value all = shared.stretches[1][this->lane_].sum;
    for (int slot = 1; slot < Base::kSlots; ++slot)
      all = sum(all, shared.stretches[1][slot * Unit::kLanes + this->lane_].sum);
    problem_.d_a_BU[this->state_] = all;
  }

 private:
  template <bool kFull>
  RECURRENCE_INLINE void fetch_steps(int begin) {
    const std::int64_t offset = this->offset(begin);
    RECURRENCE_UNROLL
    for (int i = 0; i < kSteps; ++i) {
      const bool read = this->template is_read<kFull>(begin, i);
      const std::int64_t at = offset + std::int64_t{i} * this->units_;
      this->fetch_factor(i, read, at);
      next_d_h_[i] = read ? problem_.d_h_BTU[at] : Unit::stored(Value{});
      // Before the first step it is h0, which is a state.
      const bool has_before = i > 0 || begin > 0;
      next_before_[i] = read && has_before ? problem_.h_BTU[at - this->units_] : Unit::stored(Value{});
    }
  }
  // Of e after the last of them; returns e before the first.
  template <bool kFull>
  RECURRENCE_INLINE Value finish_steps(int begin, Value e) {
    const std::int64_t offset = this->offset(begin);
    RECURRENCE_UNROLL
    for (int i = kSteps - 1; i >= 0; --i) {
      const bool read = this->template is_read<kFull>(begin, i);
      const std::int64_t at = offset + std::int64_t{i} * this->units_;
      const Value g = sum(e, Unit::value(d_h_[i]));
      const Value before = conjugate(i == 0 && begin == 0 ? h0_ : Unit::value(before_[i]));
      e = product(conjugate(this->template factor<kFull>(begin, i)), g);
      if constexpr (kConstant) d_a_ = read ? product_plus(g, before, d_a_) : d_a_;
      if (!this->template is_written<kFull>(begin, i)) continue;
      problem_.d_b_BTU[at] = Unit::stored(read ? g : Value{});
      if constexpr (!kConstant) problem_.d_a_BTU[at] = Unit::stored(read ? product(g, before) : Value{});
    }
    return e;
  }

  const BackwardProblem<Unit>& problem_;
  Value h0_;
  Value d_a_{};
  Stored d_h_[kSteps], next_d_h_[kSteps], before_[kSteps], next_before_[kSteps];
};

// The loop of a block (kernels/common/block_threads.h): of ForwardWalk, or against time of BackwardWalk.
template <class Walk, bool kBackward, class Threads>
RECURRENCE_INLINE void walk_tiles(Threads& threads, int time) {
  const int tiles = Walk::tiles(time);
  threads.each([=](auto& walk, auto&) { walk.fetch(kBackward ? tiles - 1 : 0); });
  for (int i = 0; i < tiles; ++i) {
    const int tile = kBackward ? tiles - 1 - i : i, next = kBackward ? tile - 1 : tile + 1;
    threads.each([=](auto& walk, auto& shared) {
      walk.take();
      if (i + 1 < tiles) walk.fetch(next);
      walk.share(tile, shared);
    });
    threads.meet();
    threads.each([=](auto& walk, auto& shared) { walk.finish(tile, shared); });
  }
}

// What remains for a constant a.
template <class Threads>
RECURRENCE_INLINE void add_up_constant(Threads& threads) {
  threads.each([](auto& walk, auto& shared) { walk.share_part(shared); });
  threads.meet();
  threads.each([](auto& walk, auto& shared) { walk.finish_constant(shared); });
}

}  // namespace engram::recurrence
