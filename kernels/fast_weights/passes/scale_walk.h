// How a warp finds the scale of Write::kExponential (maths.h) along a head of one sequence, compiled for the GPU and
// for the CPU, where the tests let the lanes take turns.
//
// The warp goes on by tiles of as many steps as it has lanes. Each lane computes a step's logarithms and writes them
// where all lanes see them; after a barrier each lane goes through the tile itself, step by step, from m before it to m
// after it, and keeps its own step's. Before the tile is written again there is another barrier.
#pragma once

#include "kernels/fast_weights/passes/maths.h"

namespace engram::fast_weight_passes {

constexpr int kScaleTile = 32;  // lanes of a warp

template <class Maths>
class ScaleWalk {
 public:
  using Number = typename Maths::Number;

  PASSES_INLINE ScaleWalk(int lane, int steps) : lane_(lane), steps_(steps) {}

  // logs(step): strength() of a step, for those that there are.
  template <class Logs>
  PASSES_INLINE void fetch(int begin, const Logs& logs) {
    if (begin + lane_ < steps_) next_ = logs(begin + lane_);
  }
  PASSES_INLINE void publish(Strength<Number>* tile) const { tile[lane_] = next_; }
  // store(step, ScaledStrength): of this lane's step, if there is one.
  template <class Store>
  PASSES_INLINE void finish(int begin, const Strength<Number>* tile, const Store& store) {
    double before = 0, after = 0;
    PASSES_UNROLL
    for (int s = 0; s < kScaleTile; ++s) {
      const double next = next_log_scale(log_scale_, tile[s]);
      if (s == lane_) before = log_scale_, after = next;
      log_scale_ = next;
    }
    if (begin + lane_ < steps_) store(begin + lane_, scaled<Maths>(tile[lane_], before, after));
  }

 private:
  int lane_, steps_;
  double log_scale_ = 0;         // m after the tiles so far
  Strength<Number> next_{0, 0};  // behind the last step, where nobody reads m, anything
};

}  // namespace engram::fast_weight_passes
