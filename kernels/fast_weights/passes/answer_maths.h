// What becomes of the answer of a fast-weight memory, for one head of one step, with its derivative:
//
//   o = answer / divisor
//   m = o, or the mix of o and a window's answer w, with branch_norm of o / rms(o) and w / rms(w)
//   out = m / rms(m) weight gate(x)     rms(m) = sqrt(mean m^2 + epsilon) over the C channels
//
// for lanes as maths.h and walk.h describe them.
#pragma once

#include "kernels/fast_weights/passes/maths.h"

namespace engram::fast_weight_passes {

// The divisor, given the norm's channel n: 1, n + 1e-6, max(|n|, 1) with 1 in the memory's scale.
enum class AnswerNorm { kNone, kSum, kAtLeastOne };
// What the normalised answer is multiplied by: 1, silu(x), sigmoid(x).
enum class AnswerGate { kNone, kSilu, kSigmoid };
// m: o; o + w; a o + b w, (a, b) = sigmoid(x) in R^2; g o + (1 - g) w, g = sigmoid(x) in R^C.
enum class Mix { kNone, kSum, kScalar, kVector };

struct AnswerKind {
  AnswerNorm norm;  // its channel stands behind the answer's
  AnswerGate gate;
  int channels;   // C
  float epsilon;  // of every rms
  Mix mix = Mix::kNone;
  bool branch_norm = false;  // of a mix
};

// What of a kind a kernel has at compile time: registers are short, most answers have no divisor, and most mixes no
// output gate.
template <Mix kMix, bool kBranchNorm, bool kDivides, bool kGates>
struct AnswerForm {
  static constexpr Mix mix = kMix;
  static constexpr bool branch_norm = kBranchNorm, divides = kDivides;
  static constexpr bool gates = kGates;  // whether the kind may have an output gate
};
// Calls function with the kind's form.
template <class Function>
void with_form(const AnswerKind& kind, const Function& function) {
  const auto with_gates = [&]<Mix kMix, bool kBranchNorm, bool kGates>() {
    if (kind.norm == AnswerNorm::kNone)
      function(AnswerForm<kMix, kBranchNorm, false, kGates>());
    else
      function(AnswerForm<kMix, kBranchNorm, true, kGates>());
  };
  const auto with = [&]<Mix kMix, bool kBranchNorm>() {
    if (kMix == Mix::kNone || kind.gate != AnswerGate::kNone)
      with_gates.template operator()<kMix, kBranchNorm, true>();
    else
      with_gates.template operator()<kMix, kBranchNorm, kMix == Mix::kNone>();
  };
  const auto with_mix = [&]<Mix kMix>() {
    if (kind.branch_norm)
      with.template operator()<kMix, true>();
    else
      with.template operator()<kMix, false>();
  };
  switch (kind.mix) {
    case Mix::kNone:
      return with.template operator()<Mix::kNone, false>();
    case Mix::kSum:
      return with_mix.template operator()<Mix::kSum>();
    case Mix::kScalar:
      return with_mix.template operator()<Mix::kScalar>();
    case Mix::kVector:
      return with_mix.template operator()<Mix::kVector>();
  }
}

// answer + skip values: what a memory with a skip answers (AnswerNorm::kNone).
template <class Lane>
PASSES_INLINE typename Lane::Vector with_skip(const typename Lane::Vector& answer, typename Lane::Number skip,
                                              const typename Lane::Vector& values) {
  typename Lane::Vector out;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) out.x[i] = answer.x[i] + skip * values.x[i];
  return out;
}

// What is read, the vectors as memory holds them, which takes fewer registers; the kind leaves out some, which are
// zero.
template <class Lane>
struct AnswerItem {
  typename Lane::Stored answer, window;
  typename Lane::Stored gate;                    // x of the output gate
  typename Lane::Stored mix_gate;                // x of Mix::kVector
  typename Lane::Number fast_gate, window_gate;  // x of Mix::kScalar
  typename Lane::Number one;                     // 1 in the memory's scale, of AnswerNorm::kAtLeastOne
  typename Lane::Number skip;                    // without a mix: what the values are multiplied with
  typename Lane::Stored values;
};

// x <- x / rms(x); returns 1 / rms(x).
template <class Lane>
PASSES_INLINE typename Lane::Number divide_by_rms(const AnswerKind& kind, const Lane& lane, typename Lane::Vector& x) {
  using Number = typename Lane::Number;
  const Number inverse =
      Lane::inverse_root(product_sum(lane, x, x) / static_cast<Number>(kind.channels) + Number(kind.epsilon));
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) x.x[i] *= inverse;
  return inverse;
}
// dy of y = x / rms(x) becomes dx = (dy - y mean(y dy)) / rms(x). Returns x . dx, of which a difference would leave
// roundings alone: it is y . dy (1 - mean y^2), and 1 - mean y^2 = epsilon / rms(x)^2.
template <class Lane>
PASSES_INLINE typename Lane::Number divide_by_rms_backward(const AnswerKind& kind, const Lane& lane,
                                                           const typename Lane::Vector& y,
                                                           typename Lane::Number inverse, typename Lane::Vector& d) {
  using Number = typename Lane::Number;
  const Number along = product_sum(lane, y, d), mean = along / static_cast<Number>(kind.channels);
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) d.x[i] = inverse * (d.x[i] - y.x[i] * mean);
  return along * Number(kind.epsilon) * inverse * inverse;
}

// What o and w are weighted with.
template <Mix kMix, class Lane>
class MixGate {
 public:
  using Number = typename Lane::Number;

  PASSES_INLINE explicit MixGate(const AnswerItem<Lane>& item) {
    if constexpr (kMix == Mix::kScalar)
      fast_ = Lane::sigmoid(item.fast_gate), window_ = Lane::sigmoid(item.window_gate);
    if constexpr (kMix == Mix::kVector) {
      channels_ = Lane::floats(item.mix_gate);
      PASSES_UNROLL
      for (int i = 0; i < Lane::kHeld; ++i) channels_.x[i] = Lane::sigmoid(channels_.x[i]);
    }
  }
  PASSES_INLINE Number of_fast(int i) const { return kMix == Mix::kVector ? channels_.x[i] : fast_; }
  PASSES_INLINE Number of_window(int i) const { return kMix == Mix::kVector ? 1 - channels_.x[i] : window_; }

 private:
  typename Lane::Vector channels_ = {};  // of kVector
  Number fast_ = 1, window_ = 1;         // of the others
};

// n = m / rms(m), and what leads to it: o and w as they are mixed are what is read times a factor.
template <class Form, class Lane>
class NormedAnswer {
 public:
  using Number = typename Lane::Number;
  using Vector = typename Lane::Vector;

  PASSES_INLINE NormedAnswer(const AnswerKind& kind, const Lane& lane, const AnswerItem<Lane>& item,
                             const MixGate<Form::mix, Lane>& gate)
      : kind_(kind), lane_(lane), item_(item) {
    if constexpr (Form::divides) {
      const Vector answer = Lane::floats(item.answer);
      PASSES_UNROLL
      for (int i = 0; i < Lane::kHeld; ++i)
        if (lane.first() + i == kind.channels) norm = answer.x[i];
      norm = lane.sum(norm);
      const Number size = norm < 0 ? -norm : norm, at_least_one = size > item.one ? size : item.one;
      inverse_divisor = 1 / (kind.norm == AnswerNorm::kSum ? norm + Number(kNormEpsilon) : at_least_one);
    }
    if constexpr (Form::branch_norm) {
      Vector x = fast();
      inverse_rms_fast = divide_by_rms(kind, lane, x);
      x = window();
      inverse_rms_window = divide_by_rms(kind, lane, x);
    }
    n = fast();
    if constexpr (Form::mix != Mix::kNone) {
      const Vector w = window();
      PASSES_UNROLL
      for (int i = 0; i < Lane::kHeld; ++i) n.x[i] = n.x[i] * gate.of_fast(i) + w.x[i] * gate.of_window(i);
    }
    inverse_rms = divide_by_rms(kind, lane, n);
  }
  PASSES_INLINE Vector fast() const {
    Vector o = Lane::floats(item_.answer);
    if constexpr (Form::mix == Mix::kNone) o = with_skip<Lane>(o, item_.skip, Lane::floats(item_.values));
    if constexpr (!Form::divides) return times(o, inverse_rms_fast);
    const Number factor = inverse_divisor * inverse_rms_fast;
    return each_channel(lane_, kind_.channels, [&](int i) { return o.x[i] * factor; });
  }
  PASSES_INLINE Vector window() const { return times(Lane::floats(item_.window), inverse_rms_window); }

  Vector n;
  Number norm = 0, inverse_divisor = 1, inverse_rms_fast = 1, inverse_rms_window = 1, inverse_rms;

 private:
  PASSES_INLINE static Vector times(Vector x, Number factor) {
    if constexpr (Form::branch_norm) {
      PASSES_UNROLL
      for (int i = 0; i < Lane::kHeld; ++i) x.x[i] *= factor;
    }
    return x;
  }

  const AnswerKind& kind_;
  const Lane& lane_;
  const AnswerItem<Lane>& item_;
};

template <class Lane>
PASSES_INLINE typename Lane::Number gate_factor(AnswerGate gate, typename Lane::Number x) {
  const typename Lane::Number s = Lane::sigmoid(x);
  return gate == AnswerGate::kSilu ? x * s : s;
}
template <class Lane>
PASSES_INLINE typename Lane::Number gate_derivative(AnswerGate gate, typename Lane::Number x) {
  if (gate == AnswerGate::kSilu) return silu_derivative<Lane>(x);
  const typename Lane::Number s = Lane::sigmoid(x);
  return s * (1 - s);
}

template <class Form, class Lane>
PASSES_INLINE typename Lane::Vector answered(const AnswerKind& kind, const Lane& lane, const AnswerItem<Lane>& item,
                                             const typename Lane::Vector& weight) {
  typename Lane::Vector out = NormedAnswer<Form, Lane>(kind, lane, item, MixGate<Form::mix, Lane>(item)).n;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) out.x[i] *= weight.x[i];
  if (Form::gates && kind.gate != AnswerGate::kNone) {
    const typename Lane::Vector gate = Lane::floats(item.gate);
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i) out.x[i] *= gate_factor<Lane>(kind.gate, gate.x[i]);
  }
  return out;
}

template <class Lane>
struct AnswerItemGradient {
  typename Lane::Vector answer, window, gate, mix_gate;
  typename Lane::Number fast_gate, window_gate;
};
// The weight's gradient is added to d_weight.
template <class Form, class Lane>
PASSES_INLINE AnswerItemGradient<Lane> answered_backward(const AnswerKind& kind, const Lane& lane,
                                                         const AnswerItem<Lane>& item,
                                                         const typename Lane::Vector& weight,
                                                         const typename Lane::Vector& d_out,
                                                         typename Lane::Vector& d_weight) {
  using Number = typename Lane::Number;
  using Vector = typename Lane::Vector;
  const MixGate<Form::mix, Lane> gate(item);
  const NormedAnswer<Form, Lane> normed(kind, lane, item, gate);
  AnswerItemGradient<Lane> d{};
  Vector d_m = d_out;  // of n at first, then of m
  if (Form::gates && kind.gate != AnswerGate::kNone) {
    const Vector x = Lane::floats(item.gate);
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i) {
      d.gate.x[i] = d_out.x[i] * normed.n.x[i] * weight.x[i] * gate_derivative<Lane>(kind.gate, x.x[i]);
      d_m.x[i] *= gate_factor<Lane>(kind.gate, x.x[i]);
    }
  }
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) {
    d_weight.x[i] += d_m.x[i] * normed.n.x[i];
    d_m.x[i] *= weight.x[i];
  }
  Number along = divide_by_rms_backward(kind, lane, normed.n, normed.inverse_rms, d_m);  // in the end o . do
  d.answer = d_m;
  if constexpr (Form::mix != Mix::kNone) {
    const Vector o = normed.fast(), w = normed.window();
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i) {
      d.answer.x[i] = d_m.x[i] * gate.of_fast(i);
      d.window.x[i] = d_m.x[i] * gate.of_window(i);
      if constexpr (Form::mix == Mix::kVector) d.mix_gate.x[i] = d.answer.x[i] * (o.x[i] - w.x[i]) * gate.of_window(i);
    }
    if constexpr (Form::mix == Mix::kScalar) {
      d.fast_gate = product_sum(lane, d.answer, o) * (1 - gate.of_fast(0));
      d.window_gate = product_sum(lane, d.window, w) * (1 - gate.of_window(0));
    }
    if constexpr (Form::branch_norm) {
      along = divide_by_rms_backward(kind, lane, o, normed.inverse_rms_fast, d.answer);
      divide_by_rms_backward(kind, lane, w, normed.inverse_rms_window, d.window);
    } else if constexpr (Form::divides) {
      along = product_sum(lane, o, d.answer);  // not nearly nothing, as m is not o
    }
  }
  if constexpr (Form::divides) {  // d divisor = -o . do / divisor
    d.answer = each_channel(lane, kind.channels, [&](int i) { return normed.inverse_divisor * d.answer.x[i]; });
    Number slope = 1;
    if (kind.norm == AnswerNorm::kAtLeastOne) slope = normed.norm >= item.one ? 1 : normed.norm <= -item.one ? -1 : 0;
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i)
      if (lane.first() + i == kind.channels) d.answer.x[i] = -along * normed.inverse_divisor * slope;
  }
  return d;
}

}  // namespace engram::fast_weight_passes
