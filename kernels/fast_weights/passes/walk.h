// How the lanes of a head go through the steps of a sequence, compiled for the GPU and for the CPU, where the tests
// walk with one lane a head.
//
// A sequence is cut into strips of kStrip steps, which know nothing of each other: with the convolution a strip begins
// with reading the three steps before it, and its gradients with those of the three steps behind it, computed again. A
// Lane (maths.h) also has
//   Element, Stored                 how memory holds numbers, and kHeld of them on their way
//   fetch(holds, pointer), floats(stored), store(pointer, vector)
// Whole warps stay in the loops, since sums over a head need all lanes; what lies outside is zero.
#pragma once

#include <cstdint>

#include "kernels/fast_weights/passes/maths.h"

namespace engram::fast_weight_passes {

constexpr int kTaps = 4;  // of the convolution
constexpr int kPast = kTaps - 1;
constexpr int kBias = kTaps;                    // where its bias stands behind the taps
constexpr int kConvolutionNumbers = kBias + 1;  // of a channel
constexpr int kParts = 3;                       // queries, keys, values

// With the convolution a strip is long enough for what is computed twice not to matter.
template <bool kConvolves>
constexpr int kStrip = kConvolves ? 16 : 1;

// Rows (b, t) of [q | k | v | ...], H heads each, `padded` elements a head, to rows [3, H, features_padded].
struct FeatureShape {
  int batch, steps, heads;
  int padded;           // of a head before the map; a multiple of 8, >= channels of every part
  int features_padded;  // and after it; >= features, and one more where a part ends with one
  std::int64_t projected_stride;
};

template <bool kConvolves>
PASSES_INLINE int strips_of_sequence(const FeatureShape& shape) {
  return (shape.steps + kStrip<kConvolves> - 1) / kStrip<kConvolves>;
}

// Where a lane reads and writes, of one strip, part and head.
template <class Lane, bool kConvolves>
class Strip {
 public:
  using Element = typename Lane::Element;

  // strip: of all sequences; from strips_of_sequence() * batch on there is none.
  PASSES_INLINE Strip(const FeatureShape& shape, const Lane& lane, int part, int head, int strip)
      : shape_(shape), first_(lane.first()) {
    const int of_sequence = strips_of_sequence<kConvolves>(shape), row = strip / of_sequence;
    begin_ = strip % of_sequence * kStrip<kConvolves>;
    steps_ = row < shape.batch ? shape.steps : 0;
    row_ = std::int64_t{row} * shape.steps;
    head_ = head;
    projected_ = (part * shape.heads + head) * shape.padded + first_;
    features_ = (part * shape.heads + head) * shape.features_padded + first_;
  }

  PASSES_INLINE int begin() const { return begin_; }
  PASSES_INLINE bool inside(int step) const { return 0 <= step && step < steps_; }
  PASSES_INLINE bool holds_projected(int step) const { return inside(step) && first_ < shape_.padded; }
  PASSES_INLINE bool holds_features(int step) const { return inside(step) && first_ < shape_.features_padded; }
  PASSES_INLINE std::int64_t projected(int step) const { return (row_ + step) * shape_.projected_stride + projected_; }
  PASSES_INLINE typename Lane::Stored fetch_projected(const Element* from, int step) const {
    const bool holds = holds_projected(step);
    return Lane::fetch(holds, from + (holds ? projected(step) : 0));
  }
  PASSES_INLINE typename Lane::Stored fetch_features(const Element* from, int step) const {
    const bool holds = holds_features(step);
    return Lane::fetch(holds, from + (holds ? features(step) : 0));
  }
  PASSES_INLINE std::int64_t features(int step) const {
    return (row_ + step) * kParts * shape_.heads * shape_.features_padded + features_;
  }
  // Of dropout.
  PASSES_INLINE std::int64_t item(int step) const { return (row_ + step) * shape_.heads + head_; }

 private:
  const FeatureShape& shape_;
  int first_, begin_, steps_, head_, projected_, features_;
  std::int64_t row_;
};

// taps(j): the vector of the taps that step t - 3 + j is multiplied with; taps(kBias): that of the biases, zero
// without.
template <class Lane, class Taps>
PASSES_INLINE typename Lane::Vector convolved(const Taps& taps, const typename Lane::Stored (&past)[kPast],
                                              const typename Lane::Vector& x) {
  typename Lane::Vector y = taps(kBias);
  PASSES_UNROLL
  for (int j = 0; j < kTaps; ++j) {
    const typename Lane::Vector from = j < kPast ? Lane::floats(past[j < kPast ? j : 0]) : x, tap = taps(j);
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i) y.x[i] += tap.x[i] * from.x[i];
  }
  return y;
}

template <class Lane>
PASSES_INLINE void remember(typename Lane::Stored (&past)[kPast], const typename Lane::Stored& x) {
  PASSES_UNROLL
  for (int j = 0; j + 1 < kPast; ++j) past[j] = past[j + 1];
  past[kPast - 1] = x;
}

// What the first step of a strip sees before it.
template <class Lane, bool kConvolves>
PASSES_INLINE void fetch_past(const Strip<Lane, kConvolves>& strip, const typename Lane::Element* projected,
                              typename Lane::Stored (&past)[kPast]) {
  PASSES_UNROLL
  for (int j = 0; j < kPast; ++j) past[j] = strip.fetch_projected(projected, strip.begin() - kPast + j);
}

template <bool kConvolves, class Lane, class Taps>
PASSES_INLINE void walk_forward(const FeaturePart& part, const Lane& lane, const Strip<Lane, kConvolves>& strip,
                                const Taps& taps, const typename Lane::Element* projected,
                                typename Lane::Element* features) {
  using Stored = typename Lane::Stored;
  Stored past[kPast];
  if constexpr (kConvolves) fetch_past<Lane>(strip, projected, past);
  Stored next = strip.fetch_projected(projected, strip.begin());
  for (int s = 0; s < kStrip<kConvolves>; ++s) {
    const int step = strip.begin() + s;
    const Stored stored = next;
    if (s + 1 < kStrip<kConvolves>) next = strip.fetch_projected(projected, step + 1);
    typename Lane::Vector x = Lane::floats(stored);
    if constexpr (kConvolves) {
      x = convolved<Lane>(taps, past, x);
      remember<Lane>(past, stored);
    }
    const typename Lane::Vector y = feature(part, lane, strip.item(step), x);
    if (strip.holds_features(step)) Lane::store(features + strip.features(step), y);
  }
}

// With the convolution y_t = b + sum over j of w_j x_{t - 3 + j}: dx_t = sum over j of w_j dy_{t + 3 - j}, complete
// three steps later; and dw_j = sum over t of dy_t x_{t - 3 + j} and db = sum over t of dy_t, of the strip's own steps,
// into d_taps.
template <bool kConvolves, class Lane, class Taps>
PASSES_INLINE void walk_backward(const FeaturePart& part, const Lane& lane, const Strip<Lane, kConvolves>& strip,
                                 const Taps& taps, const typename Lane::Element* projected,
                                 const typename Lane::Element* d_features, typename Lane::Element* d_projected,
                                 typename Lane::Vector (&d_taps)[kConvolutionNumbers]) {
  using Stored = typename Lane::Stored;
  using Vector = typename Lane::Vector;
  constexpr int kOwn = kStrip<kConvolves>, kSteps = kConvolves ? kOwn + kPast : kOwn;
  Stored past[kPast];
  if constexpr (kConvolves) fetch_past<Lane>(strip, projected, past);
  Vector open[kPast] = {};  // of steps t - 3, t - 2 and t - 1, as far as later steps have added to them
  Stored next = strip.fetch_projected(projected, strip.begin());
  Stored d_next = strip.fetch_features(d_features, strip.begin());
  for (int s = 0; s < kSteps; ++s) {
    const int step = strip.begin() + s;
    const Stored stored = next, d_stored = d_next;
    if (s + 1 < kSteps) {
      next = strip.fetch_projected(projected, step + 1);
      d_next = strip.fetch_features(d_features, step + 1);
    }
    const Vector x = Lane::floats(stored);
    if constexpr (kConvolves) {
      const Vector d =
          feature_backward(part, lane, strip.item(step), convolved<Lane>(taps, past, x), Lane::floats(d_stored));
      PASSES_UNROLL
      for (int i = 0; i < Lane::kHeld; ++i)
        if (s < kOwn) d_taps[kBias].x[i] += d.x[i];
      Vector done;
      PASSES_UNROLL
      for (int j = 0; j < kTaps; ++j) {
        const Vector tap = taps(j), from = j < kPast ? Lane::floats(past[j < kPast ? j : 0]) : x;
        PASSES_UNROLL
        for (int i = 0; i < Lane::kHeld; ++i) {
          if (s < kOwn) d_taps[j].x[i] += d.x[i] * from.x[i];
          const auto added = (j < kPast ? open[j < kPast ? j : 0].x[i] : 0) + tap.x[i] * d.x[i];
          if (j == 0)
            done.x[i] = added;
          else
            open[j > 0 ? j - 1 : 0].x[i] = added;
        }
      }
      remember<Lane>(past, stored);
      if (s >= kPast && strip.holds_projected(step - kPast))
        Lane::store(d_projected + strip.projected(step - kPast), done);
    } else {
      const Vector d = feature_backward(part, lane, strip.item(step), x, Lane::floats(d_stored));
      if (strip.holds_projected(step)) Lane::store(d_projected + strip.projected(step), d);
    }
  }
}

}  // namespace engram::fast_weight_passes
