// How the lanes of a head go through the steps of a sequence, compiled for the GPU and for the CPU, where the tests
// walk with one lane a head.
//
// Without the convolution lanes take query, key and value of one row, and load all before they compute: memory is their
// limit. With it a sequence is cut into strips of kStrip steps, which know nothing of each other: a strip of a query,
// key or value begins with reading the three steps before it, and its gradients with those of the three steps behind
// it, computed again. Neighbours need a strip's projection as it is, so what a window reads of it goes elsewhere. A
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
constexpr int kStrip = 16;                      // steps, enough for what is computed twice not to matter

// Rows (b, t) of [q | k | v | ...], H heads each, `padded` elements a head, to rows [3, H, features_padded].
struct FeatureShape {
  int batch, steps, heads;
  int padded;           // of a head before the map; a multiple of 8, >= channels of every part
  int features_padded;  // and after it; >= features, and one more where a part ends with one
  std::int64_t projected_stride;
};

template <class Lane>
PASSES_INLINE void add(typename Lane::Vector& to, const typename Lane::Vector& v) {
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) to.x[i] += v.x[i];
}

// ---- Rows without a convolution

PASSES_INLINE std::int64_t heads_of_rows(const FeatureShape& shape) {
  return std::int64_t{shape.batch} * shape.steps * shape.heads;
}

// Where a lane reads and writes, of one head of one row.
template <class Lane>
class RowHead {
 public:
  using Element = typename Lane::Element;

  // item: row * heads + head; from heads_of_rows() on there is none.
  PASSES_INLINE RowHead(const FeatureShape& shape, const Lane& lane, unsigned item)
      : part_(shape.heads * shape.padded), features_part_(shape.heads * shape.features_padded) {
    const bool inside = item < heads_of_rows(shape);
    holds_projected_ = inside && lane.first() < shape.padded;
    holds_features_ = inside && lane.first() < shape.features_padded;
    item_ = inside ? item : 0;
    const unsigned heads = shape.heads, row = item_ / heads, head = item_ % heads;
    projected_ = row * shape.projected_stride + head * shape.padded + (holds_projected_ ? lane.first() : 0);
    features_ = std::int64_t{row} * kParts * features_part_ + head * shape.features_padded +
                (holds_features_ ? lane.first() : 0);
    window_value_ = std::int64_t{item_} * shape.padded + (holds_projected_ ? lane.first() : 0);
  }

  PASSES_INLINE unsigned item() const { return item_; }
  PASSES_INLINE bool holds_projected() const { return holds_projected_; }
  PASSES_INLINE bool holds_features() const { return holds_features_; }
  PASSES_INLINE std::int64_t projected(int part) const { return projected_ + part * part_; }
  PASSES_INLINE std::int64_t features(int part) const { return features_ + part * features_part_; }
  PASSES_INLINE std::int64_t window_value() const { return window_value_; }

 private:
  bool holds_projected_, holds_features_;
  unsigned item_;
  int part_, features_part_;  // from a query to its key, from that to the value
  std::int64_t projected_, features_, window_value_;
};

template <class Lane>
PASSES_INLINE void row_forward(const FeaturePart (&part)[kParts], const Lane& lane, const RowHead<Lane>& head,
                               typename Lane::Element* projected, typename Lane::Element* features) {
  typename Lane::Stored stored[kParts];
  PASSES_UNROLL
  for (int p = 0; p < kParts; ++p) stored[p] = Lane::fetch(head.holds_projected(), projected + head.projected(p));
  PASSES_UNROLL
  for (int p = 0; p < kParts; ++p) {
    const Kept<Lane> kept(part[p], lane, head.item());
    typename Lane::Vector x = Lane::floats(stored[p]);
    if (part[p].drops_first && part[p].dropout.drops()) {
      kept.multiply(x);
      if (head.holds_projected()) Lane::store(projected + head.projected(p), x);
    }
    const typename Lane::Vector y = feature(part[p], lane, kept, x);
    if (head.holds_features()) Lane::store(features + head.features(p), y);
  }
}

// d_projected: on entry what a window has left of a part with drops_first. window_value: what it makes of the third
// part's features; null: none.
template <class Lane>
PASSES_INLINE void row_backward(const FeaturePart (&part)[kParts], const Lane& lane, const RowHead<Lane>& head,
                                const typename Lane::Element* projected, const typename Lane::Element* d_features,
                                const typename Lane::Element* window_value, typename Lane::Element* d_projected) {
  using Vector = typename Lane::Vector;
  typename Lane::Stored stored[kParts], d_stored[kParts], d_window[kParts];
  PASSES_UNROLL
  for (int p = 0; p < kParts; ++p) {
    stored[p] = Lane::fetch(head.holds_projected(), projected + head.projected(p));
    d_stored[p] = Lane::fetch(head.holds_features(), d_features + head.features(p));
    d_window[p] = Lane::fetch(head.holds_projected() && part[p].drops_first, d_projected + head.projected(p));
  }
  const bool has_value = window_value != nullptr && head.holds_projected();
  const typename Lane::Stored d_value = Lane::fetch(has_value, window_value + (has_value ? head.window_value() : 0));
  PASSES_UNROLL
  for (int p = 0; p < kParts; ++p) {
    const Kept<Lane> kept(part[p], lane, head.item());
    Vector d = Lane::floats(d_stored[p]);
    if (p == 2) add<Lane>(d, Lane::floats(d_value));
    d = feature_backward(part[p], lane, kept, Lane::floats(stored[p]), d);
    if (part[p].drops_first) {
      add<Lane>(d, Lane::floats(d_window[p]));
      kept.multiply(d);
    }
    if (head.holds_projected()) Lane::store(d_projected + head.projected(p), d);
  }
}

// ---- Strips with a convolution

PASSES_INLINE int strips_of_sequence(const FeatureShape& shape) { return (shape.steps + kStrip - 1) / kStrip; }

// Where a lane reads and writes, of one strip, part and head.
template <class Lane>
class Strip {
 public:
  using Element = typename Lane::Element;

  // strip: of all sequences; from strips_of_sequence() * batch on there is none.
  PASSES_INLINE Strip(const FeatureShape& shape, const Lane& lane, int part, int head, int strip)
      : shape_(shape), first_(lane.first()) {
    const int of_sequence = strips_of_sequence(shape), row = strip / of_sequence;
    begin_ = strip % of_sequence * kStrip;
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
  // In a part of a window's rows.
  PASSES_INLINE std::int64_t window(int step, std::int64_t stride) const {
    return (row_ + step) * stride + head_ * shape_.padded + first_;
  }
  // Of dropout.
  PASSES_INLINE std::int64_t item(int step) const { return (row_ + step) * shape_.heads + head_; }

 private:
  const FeatureShape& shape_;
  int first_, begin_, steps_, head_, projected_, features_;
  std::int64_t row_;
};

// What a window reads of one part, or makes of it: rows [H, padded], `stride` elements apart. first null: none.
template <class Element>
struct WindowPart {
  Element* first;
  std::int64_t stride;

  template <class Lane>
  PASSES_INLINE typename Lane::Stored fetch(const Strip<Lane>& strip, int step) const {
    const bool holds = first != nullptr && strip.holds_projected(step);
    return Lane::fetch(holds, first + (holds ? strip.window(step, stride) : 0));
  }
};
// rows: [rows, 2, H, padded], of queries and keys; null: none.
template <class Element>
PASSES_INLINE WindowPart<Element> part_of_window_rows(const FeatureShape& shape, Element* rows, int part) {
  const std::int64_t elements = shape.heads * shape.padded;
  return {rows == nullptr ? nullptr : rows + part * elements, 2 * elements};
}
// values: [rows, H, padded]; null: none.
template <class Element>
PASSES_INLINE WindowPart<Element> part_of_window_values(const FeatureShape& shape, Element* values) {
  return {values, std::int64_t{shape.heads} * shape.padded};
}

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
template <class Lane>
PASSES_INLINE void fetch_past(const Strip<Lane>& strip, const typename Lane::Element* projected,
                              typename Lane::Stored (&past)[kPast]) {
  PASSES_UNROLL
  for (int j = 0; j < kPast; ++j) past[j] = strip.fetch_projected(projected, strip.begin() - kPast + j);
}

// kBeside: whether there is a window; what it reads of a part that drops first is written to `window`.
template <bool kBeside, class Lane, class Taps>
PASSES_INLINE void walk_forward(const FeaturePart& part, const Lane& lane, const Strip<Lane>& strip, const Taps& taps,
                                const typename Lane::Element* projected, typename Lane::Element* features,
                                const WindowPart<typename Lane::Element>& window) {
  using Stored = typename Lane::Stored;
  Stored past[kPast];
  fetch_past(strip, projected, past);
  Stored next = strip.fetch_projected(projected, strip.begin());
  for (int s = 0; s < kStrip; ++s) {
    const int step = strip.begin() + s;
    const Stored stored = next;
    if (s + 1 < kStrip) next = strip.fetch_projected(projected, step + 1);
    typename Lane::Vector x = convolved<Lane>(taps, past, Lane::floats(stored));
    remember<Lane>(past, stored);
    const Kept<Lane> kept(part, lane, strip.item(step));
    if (kBeside && part.drops_first) {
      kept.multiply(x);
      if (strip.holds_projected(step)) Lane::store(window.first + strip.window(step, window.stride), x);
    }
    const typename Lane::Vector y = feature(part, lane, kept, x);
    if (strip.holds_features(step)) Lane::store(features + strip.features(step), y);
  }
}

// Of y_t = b + sum over j of w_j x_{t - 3 + j}: dx_t = sum over j of w_j dy_{t + 3 - j}, complete three steps later;
// and dw_j = sum over t of dy_t x_{t - 3 + j} and db = sum over t of dy_t, of the strip's own steps, into d_taps.
// d_window, with kBeside: what a window makes of the part that it reads, of one that does not drop first the features.
template <bool kBeside, class Lane, class Taps>
PASSES_INLINE void walk_backward(const FeaturePart& part, const Lane& lane, const Strip<Lane>& strip, const Taps& taps,
                                 const typename Lane::Element* projected, const typename Lane::Element* d_features,
                                 const WindowPart<const typename Lane::Element>& d_window,
                                 typename Lane::Element* d_projected,
                                 typename Lane::Vector (&d_taps)[kConvolutionNumbers]) {
  using Stored = typename Lane::Stored;
  using Vector = typename Lane::Vector;
  constexpr int kSteps = kStrip + kPast;
  Stored past[kPast];
  fetch_past(strip, projected, past);
  Vector open[kPast] = {};  // of steps t - 3, t - 2 and t - 1, as far as later steps have added to them
  Stored next = strip.fetch_projected(projected, strip.begin());
  Stored d_next = strip.fetch_features(d_features, strip.begin());
  for (int s = 0; s < kSteps; ++s) {
    const int step = strip.begin() + s;
    const Stored stored = next, d_stored = d_next;
    Stored d_window_stored{};  // not fetched a step ahead: no registers are left to keep it in
    if constexpr (kBeside) d_window_stored = d_window.fetch(strip, step);
    if (s + 1 < kSteps) {
      next = strip.fetch_projected(projected, step + 1);
      d_next = strip.fetch_features(d_features, step + 1);
    }
    const Vector x = Lane::floats(stored);
    const Kept<Lane> kept(part, lane, strip.item(step));
    Vector y = convolved<Lane>(taps, past, x), d_feature = Lane::floats(d_stored);
    if (kBeside && part.drops_first) kept.multiply(y);
    if (kBeside && !part.drops_first) add<Lane>(d_feature, Lane::floats(d_window_stored));
    Vector d = feature_backward(part, lane, kept, y, d_feature);
    if (kBeside && part.drops_first) {
      add<Lane>(d, Lane::floats(d_window_stored));
      kept.multiply(d);
    }
    if (s < kStrip) add<Lane>(d_taps[kBias], d);
    Vector done;
    PASSES_UNROLL
    for (int j = 0; j < kTaps; ++j) {
      const Vector tap = taps(j), from = j < kPast ? Lane::floats(past[j < kPast ? j : 0]) : x;
      PASSES_UNROLL
      for (int i = 0; i < Lane::kHeld; ++i) {
        if (s < kStrip) d_taps[j].x[i] += d.x[i] * from.x[i];
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
  }
}

}  // namespace engram::fast_weight_passes
