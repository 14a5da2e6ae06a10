// What a mixer of the fast weights' family computes around its memory, for one head of one step: features of queries,
// keys and values, write strengths and decays, and what becomes of the memory's answer; each with its derivative. One
// text for the kernels, in float, and for the tests on a CPU, in double.
//
// A head's channels are spread over lanes, which hold Lane::kHeld neighbouring ones each: eight on a GPU, all on a CPU.
// A Lane has
//   Number, Vector               float or double, and kHeld of them as x[]
//   first()                      the channel that it holds first
//   sum(x)                       the sum over the lanes of the head, in all of them; all lanes call it
//   sigmoid, exp, log1p, inverse_root
//   kExchanges                   whether it has the following
//   exchanged(i), synchronise()  of Map::kDpfp and kFavor: 2 channels + features numbers that all lanes of the head see
//   direction(c)                 of Map::kFavor: R_fc for the held features f < F, -R_fc for F + f
// What is held behind a head's channels is zero in every result.
#pragma once

#include <cstdint>

#include "base/dropout.h"
#include "base/host_device.h"

#if defined(__CUDA_ARCH__)
#define PASSES_UNROLL _Pragma("unroll")
#else
#define PASSES_UNROLL
#endif
#define PASSES_INLINE [[gnu::always_inline]] HOST_DEVICE inline

namespace engram::fast_weight_passes {

// x, silu(x), max(x, 0), 1 + elu(x), or DPFP: feature (j - 1) 2C + i is r_i r_{i - j}, r = [max(x, 0), max(-x, 0)],
// indices modulo 2C, for j = 1 .. nu (Schlag et al. 2021, equation 37); or FAVOR+: exp(-|y|^2 / 2) [exp(R y), exp(-R
// y)] / sqrt(2F), y = x / C^(1/4), with F random directions (Choromanski et al. 2021).
enum class Map { kIdentity, kSilu, kRelu, kElu, kDpfp, kFavor };
// What features are divided by: 1, sqrt(u . u + 1e-6), sum u + 1e-6.
enum class FeatureNorm { kNone, kLength, kSum };
// b: 1, beta_factor sigmoid(write logit), the step size softplus(decay logit + bias), e^(write logit) in a scale of its
// own (below).
enum class Write { kOne, kSigmoid, kStep, kExponential };
// log a: 0, log(1 - 2^(-5-h)) of head h, -exp(log rate) times the step size, log(1 - b).
enum class LogDecay { kNone, kFixed, kScalar, kOfWrite };
// What the answer is divided by, given the norm's channel n: 1, n + 1e-6, max(|n|, 1) with 1 in the memory's scale.
enum class AnswerNorm { kNone, kSum, kAtLeastOne };
// What the normalised answer is multiplied by: 1, silu(x), sigmoid(x).
enum class AnswerGate { kNone, kSilu, kSigmoid };

constexpr float kNormEpsilon = 1e-6f;  // of FeatureNorm and AnswerNorm

// Of queries, keys or values.
struct FeaturePart {
  Map map;
  FeatureNorm norm;
  DropoutKey dropout;  // between map and norm; row = row * heads + head, `features` channels
  int channels;        // C, that a head has before its map
  int features;        // and after it
  int nu;              // of kDpfp: 2 C nu features; kFavor has 2 F
  bool ends_with_one;  // one more channel behind the features, of ones
};

// Whether a map's features come from several channels.
PASSES_INLINE bool exchanges(Map map) { return map == Map::kDpfp || map == Map::kFavor; }

template <class Lane>
PASSES_INLINE typename Lane::Number silu_derivative(typename Lane::Number x) {
  const typename Lane::Number s = Lane::sigmoid(x);
  return s * (1 + x * (1 - s));
}

// ---- Features

// max(x, 0); NaN stays NaN.
template <class Number>
PASSES_INLINE Number positive_part(Number x) {
  return x < 0 ? Number(0) : x;
}

// sum over held channels of a * b, of the whole head.
template <class Lane>
PASSES_INLINE typename Lane::Number product_sum(const Lane& lane, const typename Lane::Vector& a,
                                                const typename Lane::Vector& b) {
  typename Lane::Number sum = 0;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) sum += a.x[i] * b.x[i];
  return lane.sum(sum);
}

// function(i) for what is held of `channels`; the rest is zero.
template <class Lane, class Function>
PASSES_INLINE typename Lane::Vector each_channel(const Lane& lane, int channels, const Function& function) {
  typename Lane::Vector y;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) y.x[i] = lane.first() + i < channels ? function(i) : typename Lane::Number(0);
  return y;
}

// function(i, a, b) for what is held of DPFP's features, r_a r_b.
template <class Lane, class Function>
PASSES_INLINE typename Lane::Vector each_dpfp_feature(const FeaturePart& part, const Lane& lane,
                                                      const Function& function) {
  const int period = 2 * part.channels;
  int at = lane.first() % period, shift = lane.first() / period + 1;
  typename Lane::Vector y;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) {
    y.x[i] = lane.first() + i < part.features ? function(i, at, at >= shift ? at - shift : at - shift + period)
                                              : typename Lane::Number(0);
    if (++at == period) at = 0, ++shift;
  }
  return y;
}

// C^(-1/4)
template <class Lane>
PASSES_INLINE typename Lane::Number favor_scale(const Lane&, int channels) {
  return Lane::inverse_root(1 / Lane::inverse_root(static_cast<typename Lane::Number>(channels)));
}

template <class Lane>
PASSES_INLINE typename Lane::Vector dpfp(const FeaturePart& part, const Lane& lane, const typename Lane::Vector& x) {
  lane.synchronise();  // what was exchanged before has been read
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i)
    if (const int c = lane.first() + i; c < part.channels) {
      lane.exchanged(c) = positive_part(x.x[i]);
      lane.exchanged(part.channels + c) = positive_part(-x.x[i]);
    }
  lane.synchronise();
  return each_dpfp_feature(part, lane,
                           [&](int, int at, int shifted) { return lane.exchanged(at) * lane.exchanged(shifted); });
}

template <class Lane>
PASSES_INLINE typename Lane::Vector favor(const FeaturePart& part, const Lane& lane, const typename Lane::Vector& x) {
  using Number = typename Lane::Number;
  const Number scale = favor_scale(lane, part.channels);
  const typename Lane::Vector y = each_channel(lane, part.channels, [&](int i) { return scale * x.x[i]; });
  const Number half_square = product_sum(lane, y, y) / 2;  // what was exchanged before has been read
  lane.synchronise();
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i)
    if (lane.first() + i < part.channels) lane.exchanged(lane.first() + i) = y.x[i];
  lane.synchronise();
  typename Lane::Vector exponent;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) exponent.x[i] = -half_square;
  for (int c = 0; c < part.channels; ++c) {
    const typename Lane::Vector direction = lane.direction(c);
    const Number y_c = lane.exchanged(c);
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i) exponent.x[i] += y_c * direction.x[i];
  }
  const Number factor = Lane::inverse_root(static_cast<Number>(part.features));
  return each_channel(lane, part.features, [&](int i) {
    // The lane's own, for the gradient.
    return lane.exchanged(part.channels + lane.first() + i) = factor * Lane::exp(exponent.x[i]);
  });
}

template <class Lane>
PASSES_INLINE typename Lane::Vector mapped(const FeaturePart& part, const Lane& lane, const typename Lane::Vector& x) {
  switch (part.map) {
    case Map::kSilu:
      return each_channel(lane, part.channels, [&](int i) { return x.x[i] * Lane::sigmoid(x.x[i]); });
    case Map::kRelu:
      return each_channel(lane, part.channels, [&](int i) { return positive_part(x.x[i]); });
    case Map::kElu:
      return each_channel(lane, part.channels, [&](int i) { return x.x[i] > 0 ? x.x[i] + 1 : Lane::exp(x.x[i]); });
    case Map::kDpfp:
      if constexpr (Lane::kExchanges) return dpfp(part, lane, x);
      break;
    case Map::kFavor:
      if constexpr (Lane::kExchanges) return favor(part, lane, x);
      break;
    case Map::kIdentity:
      break;
  }
  return each_channel(lane, part.channels, [&](int i) { return x.x[i]; });
}

// dx from du of u = dpfp(x) or favor(x), which the lanes have computed last.
template <class Lane>
PASSES_INLINE typename Lane::Vector dpfp_backward(const FeaturePart& part, const Lane& lane,
                                                  const typename Lane::Vector& x, const typename Lane::Vector& du) {
  using Number = typename Lane::Number;
  const int period = 2 * part.channels;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i)
    if (lane.first() + i < part.features) lane.exchanged(period + lane.first() + i) = du.x[i];
  lane.synchronise();
  return each_channel(lane, part.channels, [&](int i) {
    if (x.x[i] == 0) return Number(0);
    const int at = lane.first() + i + (x.x[i] > 0 ? 0 : part.channels);
    Number sum = 0;
    for (int j = 1; j <= part.nu; ++j) {
      const int before = at >= j ? at - j : at - j + period, after = at + j < period ? at + j : at + j - period;
      sum += lane.exchanged(j * period + at) * lane.exchanged(before) +
             lane.exchanged(j * period + after) * lane.exchanged(after);
    }
    return x.x[i] > 0 ? sum : -sum;
  });
}
template <class Lane>
PASSES_INLINE typename Lane::Vector favor_backward(const FeaturePart& part, const Lane& lane,
                                                   const typename Lane::Vector& x, const typename Lane::Vector& du) {
  using Number = typename Lane::Number;
  // Of the exponents, e_f = sum over c of R_fc y_c - |y|^2 / 2.
  const Number scale = favor_scale(lane, part.channels);
  const typename Lane::Vector de = each_channel(
      lane, part.features, [&](int i) { return du.x[i] * lane.exchanged(part.channels + lane.first() + i); });
  Number sum = 0;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) sum += de.x[i];
  sum = lane.sum(sum);
  typename Lane::Vector dx = each_channel(lane, part.channels, [&](int i) { return -scale * scale * x.x[i] * sum; });
  for (int c = 0; c < part.channels; ++c) {
    const Number along = product_sum(lane, de, lane.direction(c));
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i)
      if (lane.first() + i == c) dx.x[i] += scale * along;
  }
  return dx;
}

// dx from du of u = mapped(x), which the lanes have computed last.
template <class Lane>
PASSES_INLINE typename Lane::Vector mapped_backward(const FeaturePart& part, const Lane& lane,
                                                    const typename Lane::Vector& x, const typename Lane::Vector& du) {
  using Number = typename Lane::Number;
  switch (part.map) {
    case Map::kSilu:
      return each_channel(lane, part.channels, [&](int i) { return du.x[i] * silu_derivative<Lane>(x.x[i]); });
    case Map::kRelu:
      return each_channel(lane, part.channels, [&](int i) { return x.x[i] <= 0 ? Number(0) : du.x[i]; });
    case Map::kElu:
      return each_channel(lane, part.channels,
                          [&](int i) { return x.x[i] > 0 ? du.x[i] : du.x[i] * Lane::exp(x.x[i]); });
    case Map::kDpfp:
      if constexpr (Lane::kExchanges) return dpfp_backward(part, lane, x, du);
      break;
    case Map::kFavor:
      if constexpr (Lane::kExchanges) return favor_backward(part, lane, x, du);
      break;
    case Map::kIdentity:
      break;
  }
  return each_channel(lane, part.channels, [&](int i) { return du.x[i]; });
}

// v times what dropout multiplies it with. item: row * heads + head.
template <class Lane>
PASSES_INLINE void drop(const FeaturePart& part, const Lane& lane, std::int64_t item, typename Lane::Vector& v) {
  static_assert(Lane::kHeld % kDropoutGroup == 0);
  if (!part.dropout.drops()) return;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; i += kDropoutGroup) {
    const int channel = lane.first() + i;
    if (channel >= part.features) break;
    float factor[kDropoutGroup];
    part.dropout.draw((item * dropout_row(part.features) + channel) / kDropoutGroup, factor);
    PASSES_UNROLL
    for (int j = 0; j < kDropoutGroup; ++j) v.x[i + j] *= factor[j];
  }
}

// u <- u / |u| in the norm's sense; returns 1 / |u|.
template <class Lane>
PASSES_INLINE typename Lane::Number normalise(const FeaturePart& part, const Lane& lane, typename Lane::Vector& u) {
  using Number = typename Lane::Number;
  if (part.norm == FeatureNorm::kNone) return 1;
  Number inverse;
  if (part.norm == FeatureNorm::kLength) {
    inverse = Lane::inverse_root(product_sum(lane, u, u) + Number(kNormEpsilon));
  } else {
    Number sum = 0;
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i) sum += u.x[i];
    inverse = 1 / (lane.sum(sum) + Number(kNormEpsilon));
  }
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) u.x[i] *= inverse;
  return inverse;
}

template <class Lane>
PASSES_INLINE typename Lane::Vector feature(const FeaturePart& part, const Lane& lane, std::int64_t item,
                                            const typename Lane::Vector& x) {
  typename Lane::Vector y = mapped(part, lane, x);
  drop(part, lane, item, y);
  normalise(part, lane, y);
  if (part.ends_with_one) {
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i)
      if (lane.first() + i == part.features) y.x[i] = 1;
  }
  return y;
}

// dx from dy of y = feature(x). Of the length: du = (dy - y (y . dy)) / |u|; of the sum: du = (dy - y . dy) / |u|.
template <class Lane>
PASSES_INLINE typename Lane::Vector feature_backward(const FeaturePart& part, const Lane& lane, std::int64_t item,
                                                     const typename Lane::Vector& x, const typename Lane::Vector& dy) {
  using Number = typename Lane::Number;
  typename Lane::Vector du = dy;
  if (part.norm != FeatureNorm::kNone || exchanges(part.map)) {
    typename Lane::Vector y = mapped(part, lane, x);
    if (part.norm != FeatureNorm::kNone) {
      drop(part, lane, item, y);
      const Number inverse = normalise(part, lane, y);
      const Number along = product_sum(lane, y, dy);
      const bool length = part.norm == FeatureNorm::kLength;
      PASSES_UNROLL
      for (int i = 0; i < Lane::kHeld; ++i) du.x[i] = inverse * (dy.x[i] - (length ? y.x[i] * along : along));
    }
  }
  drop(part, lane, item, du);
  return mapped_backward(part, lane, x, du);
}

// ---- Write strengths and decays, one number a head

struct StrengthKind {
  Write write;
  LogDecay decay;
  float beta_factor;
};

PASSES_INLINE bool has_write_logit(const StrengthKind& kind) {
  return kind.write == Write::kSigmoid || kind.write == Write::kExponential;
}
// A scale changes from step to step, which is a decay, too.
PASSES_INLINE bool gives_log_decay(const StrengthKind& kind) {
  return kind.decay != LogDecay::kNone || kind.write == Write::kExponential;
}

// The logits that there are; the other numbers are not read.
template <class Number>
struct StrengthLogits {
  Number write, decay, bias, log_rate;
};
// write: of Write::kExponential its logarithm, which has no bound.
template <class Number>
struct Strength {
  Number write, log_decay;
};

// log(1 + e^x)
template <class Maths>
PASSES_INLINE typename Maths::Number softplus(typename Maths::Number x) {
  return (x > 0 ? x : 0) + Maths::log1p(Maths::exp(x > 0 ? -x : x));
}

template <class Maths>
PASSES_INLINE Strength<typename Maths::Number> strength(const StrengthKind& kind, int head,
                                                        const StrengthLogits<typename Maths::Number>& in) {
  using Number = typename Maths::Number;
  Number step = 0;
  if (kind.decay == LogDecay::kScalar) step = softplus<Maths>(in.decay + in.bias);
  Strength<Number> out{1, 0};
  if (kind.write == Write::kSigmoid) out.write = Number(kind.beta_factor) * Maths::sigmoid(in.write);
  if (kind.write == Write::kStep) out.write = step;
  if (kind.write == Write::kExponential) out.write = in.write;
  if (kind.decay == LogDecay::kFixed) out.log_decay = Maths::log1p(-Maths::exp2(Number(-5 - head)));
  if (kind.decay == LogDecay::kScalar) out.log_decay = -step * Maths::exp(in.log_rate);
  if (kind.decay == LogDecay::kOfWrite) out.log_decay = -softplus<Maths>(in.write);
  return out;
}

// Of the decay's logit and bias alike, hence one number for both.
template <class Number>
struct StrengthGradient {
  Number write, decay, log_rate;
};
// d: of what the memory takes, which with Write::kExponential is scaled; `write`, with it alone: that write strength.
template <class Maths>
PASSES_INLINE StrengthGradient<typename Maths::Number> strength_backward(
    const StrengthKind& kind, const StrengthLogits<typename Maths::Number>& in, typename Maths::Number write,
    const Strength<typename Maths::Number>& d) {
  using Number = typename Maths::Number;
  StrengthGradient<Number> out{0, 0, 0};
  if (kind.write == Write::kSigmoid) {
    const Number s = Maths::sigmoid(in.write);
    out.write = d.write * Number(kind.beta_factor) * s * (1 - s);
    if (kind.decay == LogDecay::kOfWrite) out.write -= d.log_decay * s;
  }
  if (kind.write == Write::kExponential) out.write = d.write * write;
  if (kind.decay == LogDecay::kScalar) {
    const Number logit = in.decay + in.bias, rate = Maths::exp(in.log_rate);
    out.log_rate = -d.log_decay * rate * softplus<Maths>(logit);
    out.decay = (-d.log_decay * rate + (kind.write == Write::kStep ? d.write : 0)) * Maths::sigmoid(logit);
  }
  return out;
}

// ---- The scale of Write::kExponential. The memory is kept divided by e^m, m_t = max(log a_t + m_{t-1}, log b_t, 0)
// and m = 0 before the first step: a sum with write strengths e^(log b_t - m_t) and decays e^(log a_t + m_{t-1} - m_t),
// none above 1, whose answers' 1 is e^-m_t.

constexpr int kLargestLogScale = 80;  // whose e^-m is not 0 in float: a query of zeros reads zero, not 0 / 0

// m in double: in float the roundings of a sequence's steps would add up.
template <class Number>
PASSES_INLINE double next_log_scale(double log_scale, const Strength<Number>& logs) {
  const double kept = log_scale + logs.log_decay, least = logs.write > 0 ? logs.write : 0;
  return kept > least ? kept : least;
}

template <class Number>
struct ScaledStrength {
  Number write, log_decay, one;
};
// before, after: m_{t-1} and m_t.
template <class Maths>
PASSES_INLINE ScaledStrength<typename Maths::Number> scaled(const Strength<typename Maths::Number>& logs, double before,
                                                            double after) {
  using Number = typename Maths::Number;
  return {Maths::exp(static_cast<Number>(logs.write - after)), static_cast<Number>(before + logs.log_decay - after),
          Maths::exp(static_cast<Number>(after < kLargestLogScale ? -after : -kLargestLogScale))};
}

// ---- The memory's answer

struct AnswerKind {
  AnswerNorm norm;  // its channel stands behind the answer's
  AnswerGate gate;
  int channels;   // C
  float epsilon;  // of the RMS norm
};

// answer + skip values: what a memory with a skip answers (AnswerNorm::kNone).
template <class Lane>
PASSES_INLINE typename Lane::Vector with_skip(const typename Lane::Vector& answer, typename Lane::Number skip,
                                              const typename Lane::Vector& values) {
  typename Lane::Vector out;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) out.x[i] = answer.x[i] + skip * values.x[i];
  return out;
}

// n = o / rms(o) of o = answer / divisor.
template <class Lane>
struct NormedAnswer {
  typename Lane::Vector n;
  typename Lane::Number norm, inverse_divisor, inverse_rms;
};
// one: 1 in the memory's scale, read with AnswerNorm::kAtLeastOne alone.
template <class Lane>
PASSES_INLINE NormedAnswer<Lane> normed_answer(const AnswerKind& kind, const Lane& lane,
                                               const typename Lane::Vector& answer, typename Lane::Number one) {
  using Number = typename Lane::Number;
  NormedAnswer<Lane> out{{}, 0, 1, 0};
  if (kind.norm != AnswerNorm::kNone) {
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i)
      if (lane.first() + i == kind.channels) out.norm = answer.x[i];
    out.norm = lane.sum(out.norm);
    const Number size = out.norm < 0 ? -out.norm : out.norm, at_least_one = size > one ? size : one;
    out.inverse_divisor = 1 / (kind.norm == AnswerNorm::kSum ? out.norm + Number(kNormEpsilon) : at_least_one);
  }
  out.n = each_channel(lane, kind.channels, [&](int i) { return answer.x[i] * out.inverse_divisor; });
  out.inverse_rms =
      Lane::inverse_root(product_sum(lane, out.n, out.n) / static_cast<Number>(kind.channels) + Number(kind.epsilon));
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) out.n.x[i] *= out.inverse_rms;
  return out;
}

template <class Lane>
PASSES_INLINE typename Lane::Number gate_factor(AnswerGate gate, typename Lane::Number x) {
  if (gate == AnswerGate::kNone) return 1;
  const typename Lane::Number s = Lane::sigmoid(x);
  return gate == AnswerGate::kSilu ? x * s : s;
}
template <class Lane>
PASSES_INLINE typename Lane::Number gate_derivative(AnswerGate gate, typename Lane::Number x) {
  if (gate == AnswerGate::kSilu) return silu_derivative<Lane>(x);
  const typename Lane::Number s = Lane::sigmoid(x);
  return s * (1 - s);
}

// n weight gate(x)
template <class Lane>
PASSES_INLINE typename Lane::Vector mixed(const AnswerKind& kind, const Lane& lane, const typename Lane::Vector& answer,
                                          typename Lane::Number one, const typename Lane::Vector& weight,
                                          const typename Lane::Vector& gate) {
  typename Lane::Vector out = normed_answer(kind, lane, answer, one).n;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) out.x[i] *= weight.x[i] * gate_factor<Lane>(kind.gate, gate.x[i]);
  return out;
}

template <class Lane>
struct MixedGradient {
  typename Lane::Vector answer, weight, gate;  // gate: zero without one
};
template <class Lane>
PASSES_INLINE MixedGradient<Lane> mixed_backward(const AnswerKind& kind, const Lane& lane,
                                                 const typename Lane::Vector& answer, typename Lane::Number one,
                                                 const typename Lane::Vector& weight, const typename Lane::Vector& gate,
                                                 const typename Lane::Vector& d_out) {
  using Number = typename Lane::Number;
  const NormedAnswer<Lane> normed = normed_answer(kind, lane, answer, one);
  MixedGradient<Lane> d{};
  typename Lane::Vector& d_n = d.answer;
  PASSES_UNROLL
  for (int i = 0; i < Lane::kHeld; ++i) {
    const Number n = normed.n.x[i], by_gate = d_out.x[i] * gate_factor<Lane>(kind.gate, gate.x[i]);
    if (kind.gate != AnswerGate::kNone)
      d.gate.x[i] = d_out.x[i] * n * weight.x[i] * gate_derivative<Lane>(kind.gate, gate.x[i]);
    d.weight.x[i] = by_gate * n;
    d_n.x[i] = by_gate * weight.x[i];
  }
  // Through the RMS norm: do = (dn - n mean(n dn)) / rms; then o = answer / divisor.
  const Number along = product_sum(lane, normed.n, d_n) / static_cast<Number>(kind.channels);
  d.answer = each_channel(lane, kind.channels, [&](int i) {
    return normed.inverse_rms * normed.inverse_divisor * (d_n.x[i] - normed.n.x[i] * along);
  });
  if (kind.norm != AnswerNorm::kNone) {
    // d divisor = -o . do / divisor, and of o . do = n . dn (1 - mean n^2), nearly nothing, a difference would leave
    // roundings alone: 1 - mean n^2 = epsilon / rms^2.
    const Number d_divisor = -along * static_cast<Number>(kind.channels) * Number(kind.epsilon) * normed.inverse_rms *
                             normed.inverse_rms * normed.inverse_divisor;
    Number slope = 1;
    if (kind.norm == AnswerNorm::kAtLeastOne) slope = normed.norm >= one ? 1 : normed.norm <= -one ? -1 : 0;
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i)
      if (lane.first() + i == kind.channels) d.answer.x[i] = d_divisor * slope;
  }
  return d;
}

}  // namespace engram::fast_weight_passes
