#include "kernels/fast_weights/passes/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace engram::fast_weight_passes {
namespace {

constexpr int kMostChannels = 128;  // of a head

// All of a head.
class WholeHead {
 public:
  using Number = double;
  using Element = double;
  static constexpr int kHeld = kMostChannels;
  static constexpr bool kExchanges = true;
  struct Vector {
    double x[kHeld];
  };
  using Stored = Vector;

  // directions_FC: of Map::kFavor.
  WholeHead(const Numbers& directions_FC, int channels) : directions_FC_(directions_FC), channels_(channels) {}

  int first() const { return 0; }
  double sum(double x) const { return x; }
  double& exchanged(int i) const { return exchanged_[i]; }
  void synchronise() const {}
  Vector direction(int c) const {
    Vector v{};
    const int count = static_cast<int>(directions_FC_.size()) / channels_;
    for (int f = 0; f < count; ++f) {
      v.x[f] = directions_FC_[f * channels_ + c];
      v.x[count + f] = -v.x[f];
    }
    return v;
  }

  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  static double exp(double x) { return std::exp(x); }
  static double exp2(double x) { return std::exp2(x); }
  static double log1p(double x) { return std::log1p(x); }
  static double inverse_root(double x) { return 1 / std::sqrt(x); }

  static Vector fetch(bool holds, const double* p) {
    Vector v{};
    if (holds) std::copy_n(p, kHeld, v.x);
    return v;
  }
  static const Vector& floats(const Vector& stored) { return stored; }
  static void store(double* p, const Vector& v) { std::copy_n(v.x, kHeld, p); }

 private:
  const Numbers& directions_FC_;
  int channels_;
  mutable Numbers exchanged_ = Numbers(2 * kHeld);
};

// Rows of `width` numbers to rows of kMostChannels and back.
Numbers padded(const Numbers& x, int width) {
  Numbers y(x.size() / width * kMostChannels);
  for (std::size_t i = 0; i < x.size(); ++i) y[i / width * kMostChannels + i % width] = x[i];
  return y;
}
Numbers unpadded(const Numbers& x, int width) {
  Numbers y(x.size() / kMostChannels * width);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i / width * kMostChannels + i % width];
  return y;
}

WholeHead::Vector vector_of(const Numbers& x, std::size_t first, std::size_t size) {
  WholeHead::Vector v{};
  if (!x.empty()) std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(first), size, v.x);
  return v;
}

// taps(j) of a part and head, and the bias behind them.
class Taps {
 public:
  Taps(const FeaturesReference& input, int part, int head) {
    const int channels = input.part[0].channels;
    first_ = static_cast<std::size_t>(part * input.heads + head) * channels;
    for (int i = 0; !input.convolution.empty() && i < channels * kTaps; ++i)
      tap_[i % kTaps].x[i / kTaps] = input.convolution[first_ * kTaps + i];
    for (int c = 0; !input.bias.empty() && c < channels; ++c) tap_[kBias].x[c] = input.bias[first_ + c];
  }
  const WholeHead::Vector& operator()(int j) const { return tap_[j]; }
  // Its first channel among all.
  std::size_t first() const { return first_; }

 private:
  std::size_t first_;
  WholeHead::Vector tap_[kConvolutionNumbers] = {};
};

FeatureShape shape_of(const FeaturesReference& input) {
  return {.batch = input.batch,
          .steps = input.steps,
          .heads = input.heads,
          .padded = kMostChannels,
          .features_padded = kMostChannels,
          .projected_stride = std::int64_t{kParts} * input.heads * kMostChannels};
}

// walk(part, strip, taps) for every part, head and strip.
template <bool kConvolves, class Walk>
void each_strip(const FeaturesReference& input, const WholeHead& lane, const Walk& walk) {
  const FeatureShape shape = shape_of(input);
  for (int part = 0; part < kParts; ++part)
    for (int head = 0; head < input.heads; ++head) {
      const Taps taps(input, part, head);
      for (int strip = 0; strip < strips_of_sequence<kConvolves>(shape) * input.batch; ++strip)
        walk(input.part[part], Strip<WholeHead, kConvolves>(shape, lane, part, head, strip), taps);
    }
}

template <bool kConvolves>
Numbers forward(const FeaturesReference& input) {
  const WholeHead lane(input.directions, input.part[0].channels);
  const Numbers projected = padded(input.projected, input.part[0].channels);
  Numbers features(projected.size());
  each_strip<kConvolves>(input, lane, [&](const FeaturePart& part, const auto& strip, const Taps& taps) {
    walk_forward<kConvolves>(part, lane, strip, taps, projected.data(), features.data());
  });
  return unpadded(features, input.features_width());
}

template <bool kConvolves>
FeaturesReferenceGradient backward(const FeaturesReference& input, const Numbers& d_features) {
  const WholeHead lane(input.directions, input.part[0].channels);
  const Numbers projected = padded(input.projected, input.part[0].channels),
                d = padded(d_features, input.features_width());
  Numbers d_projected(projected.size()), d_convolution(input.convolution.size()), d_bias(input.bias.size());
  each_strip<kConvolves>(input, lane, [&](const FeaturePart& part, const auto& strip, const Taps& taps) {
    WholeHead::Vector d_taps[kConvolutionNumbers] = {};
    walk_backward<kConvolves>(part, lane, strip, taps, projected.data(), d.data(), d_projected.data(), d_taps);
    for (int i = 0; kConvolves && i < part.channels * kTaps; ++i)
      d_convolution[taps.first() * kTaps + i] += d_taps[i % kTaps].x[i / kTaps];
    for (int c = 0; !d_bias.empty() && c < part.channels; ++c) d_bias[taps.first() + c] += d_taps[kBias].x[c];
  });
  return {unpadded(d_projected, input.part[0].channels), d_convolution, d_bias};
}

StrengthLogits<double> logits_of(const StrengthsReference& input, std::size_t i) {
  const auto at = [](const Numbers& x, std::size_t index) { return x.empty() ? 0 : x[index]; };
  const std::size_t head = i % input.heads;
  return {at(input.write_logits, i) + at(input.write_bias_H, head), at(input.decay_logits, i), at(input.bias_H, head),
          at(input.log_rate_H, head)};
}

// Of one head of one row.
struct AnswerItem {
  std::size_t first, first_of_answer;  // of what is [rows, H, C], of what is as the answer
  WholeHead::Vector answer, gate, weight, values;
  double one, skip;  // skip: scaled; 0 without
  std::size_t head;
};

std::size_t answer_width(const AnswerReference& input) {
  return input.kind.channels + (input.kind.norm != AnswerNorm::kNone ? 1 : 0);
}

// function(item) of every head; the answer has its skip.
template <class Function>
void each_answer(const AnswerReference& input, const Function& function) {
  const std::size_t channels = input.kind.channels, width = answer_width(input), heads = input.skip_H.size();
  for (std::size_t i = 0; i < input.answer.size() / width; ++i) {
    AnswerItem item{.first = i * channels,
                    .first_of_answer = i * width,
                    .answer = vector_of(input.answer, i * width, width),
                    .gate = vector_of(input.gate, i * channels, channels),
                    .weight = vector_of(input.weight, 0, channels),
                    .values = vector_of(input.values, i * channels, channels),
                    .one = input.one.empty() ? 1 : input.one[i],
                    .skip = 0,
                    .head = heads == 0 ? 0 : i % heads};
    if (heads > 0) item.skip = input.skip_scale * input.skip_H[item.head];
    item.answer = with_skip<WholeHead>(item.answer, item.skip, item.values);
    function(item);
  }
}

}  // namespace

int FeaturesReference::features_width() const {
  int width = 0;
  for (const FeaturePart& own : part) width = std::max(width, own.features + (own.ends_with_one ? 1 : 0));
  return width;
}

Numbers features_reference(const FeaturesReference& input) {
  return input.convolution.empty() ? forward<false>(input) : forward<true>(input);
}

FeaturesReferenceGradient features_reference_backward(const FeaturesReference& input, const Numbers& d_features) {
  return input.convolution.empty() ? backward<false>(input, d_features) : backward<true>(input, d_features);
}

StrengthsReferenceOutput strengths_reference(const StrengthsReference& input, int rows) {
  StrengthsReferenceOutput out;
  Numbers log_scale_H(input.heads);
  for (int i = 0; i < rows * input.heads; ++i) {
    const int head = i % input.heads;
    const auto own = strength<WholeHead>(input.kind, head, logits_of(input, i));
    if (input.kind.write != Write::kExponential) {
      out.write.push_back(own.write);
      out.log_decay.push_back(own.log_decay);
      continue;
    }
    const double before = i / input.heads % input.steps == 0 ? 0 : log_scale_H[head];
    log_scale_H[head] = next_log_scale(before, own);
    const auto in_scale = scaled<WholeHead>(own, before, log_scale_H[head]);
    out.write.push_back(in_scale.write);
    out.log_decay.push_back(in_scale.log_decay);
    out.one.push_back(in_scale.one);
  }
  return out;
}

StrengthsReferenceGradient strengths_reference_backward(const StrengthsReference& input,
                                                        const StrengthsReferenceOutput& d) {
  StrengthsReferenceGradient out{{}, {}, Numbers(input.heads), Numbers(input.heads), Numbers(input.heads)};
  const Numbers write = strengths_reference(input, static_cast<int>(d.write.size()) / input.heads).write;
  for (std::size_t i = 0; i < d.write.size(); ++i) {
    const auto own =
        strength_backward<WholeHead>(input.kind, logits_of(input, i), write[i], {d.write[i], d.log_decay[i]});
    out.write_logits.push_back(own.write);
    out.decay_logits.push_back(own.decay);
    out.bias_H[i % input.heads] += own.decay;
    out.log_rate_H[i % input.heads] += own.log_rate;
    out.write_bias_H[i % input.heads] += own.write;
  }
  return out;
}

Numbers answer_reference(const AnswerReference& input) {
  const WholeHead lane(input.weight, input.kind.channels);  // nothing asks it for directions
  Numbers out;
  each_answer(input, [&](const AnswerItem& item) {
    const auto own = mixed(input.kind, lane, item.answer, item.one, item.weight, item.gate);
    out.insert(out.end(), own.x, own.x + input.kind.channels);
  });
  return out;
}

AnswerReferenceGradient answer_reference_backward(const AnswerReference& input, const Numbers& d_out) {
  const WholeHead lane(input.weight, input.kind.channels);  // nothing asks it for directions
  AnswerReferenceGradient d{Numbers(input.answer.size()), Numbers(input.gate.size()), Numbers(input.weight.size()),
                            Numbers(input.skip_H.size()), Numbers(input.values.size())};
  const int channels = input.kind.channels;
  each_answer(input, [&](const AnswerItem& item) {
    const auto own = mixed_backward(input.kind, lane, item.answer, item.one, item.weight, item.gate,
                                    vector_of(d_out, item.first, channels));
    const auto copy_to = [](const WholeHead::Vector& v, std::size_t size, Numbers& all, std::size_t first) {
      std::copy_n(v.x, size, all.begin() + static_cast<std::ptrdiff_t>(first));
    };
    copy_to(own.answer, answer_width(input), d.answer, item.first_of_answer);
    if (!d.gate.empty()) copy_to(own.gate, channels, d.gate, item.first);
    for (int i = 0; i < channels; ++i) d.weight[i] += own.weight.x[i];
    if (d.skip_H.empty()) return;
    d.skip_H[item.head] += input.skip_scale * product_sum(lane, own.answer, item.values);
    copy_to(with_skip<WholeHead>({}, item.skip, own.answer), channels, d.values, item.first);
  });
  return d;
}

}  // namespace engram::fast_weight_passes
