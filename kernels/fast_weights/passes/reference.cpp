#include "kernels/fast_weights/passes/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

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
  Taps(const FeaturesReference& input, int part, int head) : part_(part) {
    const int channels = input.part[0].channels;
    first_ = static_cast<std::size_t>(part * input.heads + head) * channels;
    for (int i = 0; !input.convolution.empty() && i < channels * kTaps; ++i)
      tap_[i % kTaps].x[i / kTaps] = input.convolution[first_ * kTaps + i];
    for (int c = 0; !input.bias.empty() && c < channels; ++c) tap_[kBias].x[c] = input.bias[first_ + c];
  }
  const WholeHead::Vector& operator()(int j) const { return tap_[j]; }
  int part() const { return part_; }
  // Its first channel among all.
  std::size_t first() const { return first_; }

 private:
  int part_;
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

// Numbers of the rows that a window reads behind a convolution.
std::size_t window_rows_size(const FeaturesReference& input) {
  const bool beside = !input.convolution.empty() && input.part[0].drops_first;
  return beside ? std::size_t{2} * heads_of_rows(shape_of(input)) * kMostChannels : 0;
}

// walk(part, strip, taps) for every part, head and strip.
template <class Walk>
void each_strip(const FeaturesReference& input, const WholeHead& lane, const Walk& walk) {
  const FeatureShape shape = shape_of(input);
  for (int part = 0; part < kParts; ++part)
    for (int head = 0; head < input.heads; ++head) {
      const Taps taps(input, part, head);
      for (int strip = 0; strip < strips_of_sequence(shape) * input.batch; ++strip)
        walk(input.part[part], Strip<WholeHead>(shape, lane, part, head, strip), taps);
    }
}

// walk(head) for every head of every row.
template <class Walk>
void each_row_head(const FeaturesReference& input, const WholeHead& lane, const Walk& walk) {
  const FeatureShape shape = shape_of(input);
  for (unsigned item = 0; item < heads_of_rows(shape); ++item) walk(RowHead<WholeHead>(shape, lane, item));
}

StrengthLogits<double> logits_of(const StrengthsReference& input, std::size_t i) {
  const auto at = [](const Numbers& x, std::size_t index) { return x.empty() ? 0 : x[index]; };
  const std::size_t head = i % input.heads;
  return {at(input.write_logits, i) + at(input.write_bias_H, head), at(input.decay_logits, i), at(input.bias_H, head),
          at(input.log_rate_H, head)};
}

std::size_t answer_width(const AnswerReference& input) {
  return input.kind.channels + (input.kind.norm != AnswerNorm::kNone ? 1 : 0);
}
std::size_t mix_width(const AnswerReference& input) { return input.kind.mix == Mix::kScalar ? 2 : input.kind.channels; }

// Of head i of all rows.
AnswerItem<WholeHead> answer_item(const AnswerReference& input, std::size_t i) {
  const std::size_t channels = input.kind.channels, width = answer_width(input), gates = mix_width(input);
  const WholeHead::Vector mix_gate = vector_of(input.mix_gate, i * gates, gates);
  return {.answer = vector_of(input.answer, i * width, width),
          .window = vector_of(input.window, i * channels, channels),
          .gate = vector_of(input.gate, i * channels, channels),
          .mix_gate = mix_gate,
          .fast_gate = mix_gate.x[0],
          .window_gate = mix_gate.x[1],
          .one = input.one.empty() ? 1 : input.one[i],
          .skip = input.skip_H.empty() ? 0 : input.skip_scale * input.skip_H[i % input.skip_H.size()],
          .values = vector_of(input.values, i * channels, channels)};
}

}  // namespace

int FeaturesReference::features_width() const {
  int width = 0;
  for (const FeaturePart& own : part) width = std::max(width, own.features + (own.ends_with_one ? 1 : 0));
  return width;
}

Numbers features_reference(const FeaturesReference& input, Numbers* left, Numbers* window_rows) {
  const WholeHead lane(input.directions, input.part[0].channels);
  Numbers projected = padded(input.projected, input.part[0].channels), features(projected.size());
  Numbers read(window_rows_size(input));
  if (input.convolution.empty())
    each_row_head(input, lane,
                  [&](const auto& head) { row_forward(input.part, lane, head, projected.data(), features.data()); });
  else
    each_strip(input, lane, [&](const FeaturePart& part, const auto& strip, const Taps& taps) {
      walk_forward<true>(part, lane, strip, taps, projected.data(), features.data(),
                         part_of_window_rows(shape_of(input), read.data(), taps.part()));
    });
  if (left != nullptr) *left = unpadded(projected, input.part[0].channels);
  if (window_rows != nullptr) *window_rows = unpadded(read, input.part[0].channels);
  return unpadded(features, input.features_width());
}

FeaturesReferenceGradient features_reference_backward(const FeaturesReference& input, const Numbers& d_features,
                                                      const WindowGradient& window) {
  const int channels = input.part[0].channels;
  const WholeHead lane(input.directions, channels);
  const Numbers projected = padded(input.projected, channels), d = padded(d_features, input.features_width()),
                d_value = padded(window.value, channels);
  const double* const of_value = d_value.empty() ? nullptr : d_value.data();
  Numbers d_projected = padded(window.projected, channels), d_rows = padded(window.rows, channels),
          d_convolution(input.convolution.size()), d_bias(input.bias.size());
  d_projected.resize(projected.size());
  d_rows.resize(window_rows_size(input));
  if (input.convolution.empty())
    each_row_head(input, lane, [&](const auto& head) {
      row_backward(input.part, lane, head, projected.data(), d.data(), of_value, d_projected.data());
    });
  else
    each_strip(input, lane, [&](const FeaturePart& part, const auto& strip, const Taps& taps) {
      WholeHead::Vector d_taps[kConvolutionNumbers] = {};
      const FeatureShape shape = shape_of(input);
      walk_backward<true>(part, lane, strip, taps, projected.data(), d.data(),
                          part.drops_first ? part_of_window_rows(shape, std::as_const(d_rows).data(), taps.part())
                                           : part_of_window_values(shape, of_value),
                          d_projected.data(), d_taps);
      for (int i = 0; i < channels * kTaps; ++i)
        d_convolution[taps.first() * kTaps + i] += d_taps[i % kTaps].x[i / kTaps];
      for (int c = 0; !d_bias.empty() && c < channels; ++c) d_bias[taps.first() + c] += d_taps[kBias].x[c];
    });
  return {unpadded(d_projected, channels), d_convolution, d_bias};
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
  const WholeHead::Vector weight = vector_of(input.weight, 0, input.kind.channels);
  Numbers out;
  with_form(input.kind, [&]<class Form>(Form) {
    for (std::size_t i = 0; i < input.answer.size() / answer_width(input); ++i) {
      const auto own = answered<Form>(input.kind, lane, answer_item(input, i), weight);
      out.insert(out.end(), own.x, own.x + input.kind.channels);
    }
  });
  return out;
}

AnswerReferenceGradient answer_reference_backward(const AnswerReference& input, const Numbers& d_out) {
  const std::size_t channels = input.kind.channels, width = answer_width(input), gates = mix_width(input);
  const WholeHead lane(input.weight, input.kind.channels);  // nothing asks it for directions
  const WholeHead::Vector weight = vector_of(input.weight, 0, channels);
  WholeHead::Vector d_weight{};
  AnswerReferenceGradient d{{}, {}, {}, Numbers(input.skip_H.size()), {}, {}, {}};
  const auto append = [](Numbers& to, const double* from, std::size_t size) { to.insert(to.end(), from, from + size); };
  with_form(input.kind, [&]<class Form>(Form) {
    for (std::size_t i = 0; i < input.answer.size() / width; ++i) {
      const AnswerItem<WholeHead> item = answer_item(input, i);
      const auto own =
          answered_backward<Form>(input.kind, lane, item, weight, vector_of(d_out, i * channels, channels), d_weight);
      append(d.answer, own.answer.x, width);
      const double scalars[] = {own.fast_gate, own.window_gate};
      if (!input.gate.empty()) append(d.gate, own.gate.x, channels);
      if (!input.mix_gate.empty()) append(d.mix_gate, input.kind.mix == Mix::kScalar ? scalars : own.mix_gate.x, gates);
      if (!input.window.empty()) append(d.window, own.window.x, channels);
      if (input.skip_H.empty()) continue;
      d.skip_H[i % input.skip_H.size()] += input.skip_scale * product_sum(lane, own.answer, item.values);
      append(d.values, with_skip<WholeHead>({}, item.skip, own.answer).x, channels);
    }
  });
  append(d.weight, d_weight.x, channels);
  return d;
}

}  // namespace engram::fast_weight_passes
