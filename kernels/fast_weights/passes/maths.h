// What a mixer of the fast weights' family computes before its memory, for one head of one step: features of queries,
// keys and values, write strengths and decays; each with its derivative. (answer_maths.h has what comes behind it.) One
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

constexpr float kNormEpsilon = 1e-6f;  // of FeatureNorm, and of the answer's norm

// Of queries, keys or values.
struct FeaturePart {
  Map map;
  FeatureNorm norm;
  DropoutKey dropout;  // between map and norm; row = row * heads + head, `features` channels, or with drops_first C
  int channels;        // C, that a head has before its map
  int features;        // and after it
  int nu;              // of kDpfp: 2 C nu features; kFavor has 2 F
  bool ends_with_one;  // one more channel behind the features, of ones
  // Dropout comes before the map, and what it leaves is kept for a window that reads it, too: in the projection, or
  // behind a convolution in rows of its own.
  bool drops_first = false;
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

// u = map(x) and, of a map by channel, du/dx.
template <class Lane>
struct Mapped {
  typename Lane::Vector u, slope;
};
template <class Lane>
PASSES_INLINE Mapped<Lane> mapped(const FeaturePart& part, const Lane& lane, const typename Lane::Vector& x) {
  using Number = typename Lane::Number;
  Mapped<Lane> y;
  if constexpr (Lane::kExchanges) {
    if (part.map == Map::kDpfp) return {dpfp(part, lane, x), {}};
    if (part.map == Map::kFavor) return {favor(part, lane, x), {}};
  }
  if (part.map == Map::kSilu) {
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i) {
      const Number s = Lane::sigmoid(x.x[i]);
      y.u.x[i] = x.x[i] * s, y.slope.x[i] = s * (1 + x.x[i] * (1 - s));
    }
  } else if (part.map == Map::kRelu) {
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i) y.u.x[i] = positive_part(x.x[i]), y.slope.x[i] = x.x[i] <= 0 ? 0 : 1;
  } else if (part.map == Map::kElu) {
    y.u = each_channel(lane, part.channels, [&](int i) { return x.x[i] > 0 ? x.x[i] + 1 : Lane::exp(x.x[i]); });
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i) y.slope.x[i] = x.x[i] > 0 ? 1 : y.u.x[i];
  } else {
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i) y.u.x[i] = x.x[i], y.slope.x[i] = 1;
  }
  return y;
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

// Which of the elements that a lane holds of a head dropout keeps, drawn once for all that it multiplies.
template <class Lane>
class Kept {
 public:
  // item: row * heads + head.
  PASSES_INLINE Kept(const FeaturePart& part, const Lane& lane, std::int64_t item) : dropout_(part.dropout) {
    static_assert(Lane::kHeld % kDropoutGroup == 0);
    if (!dropout_.drops()) return;
    const int elements = part.drops_first ? part.channels : part.features;
    PASSES_UNROLL
    for (int i = 0; i < kGroups; ++i)
      if (const int first = lane.first() + i * kDropoutGroup; first < elements)
        bits_[i] = dropout_.kept((item * dropout_row(elements) + first) / kDropoutGroup);
  }
  // v times what dropout multiplies it with.
  PASSES_INLINE void multiply(typename Lane::Vector& v) const {
    if (!dropout_.drops()) return;
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i)
      v.x[i] *= (bits_[i / kDropoutGroup] >> i % kDropoutGroup & 1) != 0 ? dropout_.scale : 0.0f;
  }

 private:
  static constexpr int kGroups = Lane::kHeld / kDropoutGroup;
  const DropoutKey& dropout_;
  std::uint32_t bits_[kGroups] = {};
};

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

// x: with drops_first what dropout leaves, as in the next.
template <class Lane>
PASSES_INLINE typename Lane::Vector feature(const FeaturePart& part, const Lane& lane, const Kept<Lane>& kept,
                                            const typename Lane::Vector& x) {
  typename Lane::Vector y = mapped(part, lane, x).u;
  if (!part.drops_first) kept.multiply(y);
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
PASSES_INLINE typename Lane::Vector feature_backward(const FeaturePart& part, const Lane& lane, const Kept<Lane>& kept,
                                                     const typename Lane::Vector& x, const typename Lane::Vector& dy) {
  using Number = typename Lane::Number;
  const Mapped<Lane> map = mapped(part, lane, x);
  typename Lane::Vector du = dy;
  if (part.norm != FeatureNorm::kNone) {
    typename Lane::Vector y = map.u;
    if (!part.drops_first) kept.multiply(y);
    const Number inverse = normalise(part, lane, y);
    const Number along = product_sum(lane, y, dy);
    const bool length = part.norm == FeatureNorm::kLength;
    PASSES_UNROLL
    for (int i = 0; i < Lane::kHeld; ++i) du.x[i] = inverse * (dy.x[i] - (length ? y.x[i] * along : along));
  }
  if (!part.drops_first) kept.multiply(du);
  if constexpr (Lane::kExchanges) {  // what is exchanged still holds this map's
    if (part.map == Map::kDpfp) return dpfp_backward(part, lane, x, du);
    if (part.map == Map::kFavor) return favor_backward(part, lane, x, du);
  }
  return each_channel(lane, part.channels, [&](int i) { return du.x[i] * map.slope.x[i]; });
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

}  // namespace engram::fast_weight_passes
