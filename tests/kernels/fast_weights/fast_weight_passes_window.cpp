// What a window takes part in beside fast weights, without a GPU: the double-precision reference, which is the kernels'
// own text, against plain formulas and their slopes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/fast_weights/fast_weight_passes_case.h"

using namespace engram;
using namespace engram::testing;
using passes::AnswerNorm;
using passes::FeatureNorm;
using passes::Map;
using passes::Mix;

namespace {

constexpr double kBound = 1e-7;  // of slopes of double-precision formulas

void append(Numbers& to, const Numbers& from) { to.insert(to.end(), from.begin(), from.end()); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// ---- Features

Numbers plain_map(Map map, const Numbers& x) {
  Numbers u;
  if (map == Map::kDpfp) {  // nu = 1
    Numbers r;
    for (const double sign : {1, -1})
      for (const double element : x) r.push_back(std::max(sign * element, 0.0));
    for (std::size_t i = 0; i < r.size(); ++i) u.push_back(r[i] * r[(i + r.size() - 1) % r.size()]);
  } else {
    for (const double element : x)
      u.push_back(map == Map::kSilu  ? element * sigmoid(element)
                  : map == Map::kElu ? element > 0 ? element + 1 : std::exp(element)
                                     : element);
  }
  return u;
}

Numbers plain_norm(FeatureNorm norm, Numbers u) {
  double size = passes::kNormEpsilon;
  for (const double element : u) size += norm == FeatureNorm::kLength ? element * element : element;
  if (norm == FeatureNorm::kLength) size = std::sqrt(size);
  for (double& element : u) element /= norm == FeatureNorm::kNone ? 1 : size;
  return u;
}

// What dropout multiplies a head's `size` elements with.
Numbers factors(const DropoutKey& dropout, std::size_t item, int size) {
  Numbers factor;
  for (int group = 0; group < dropout_row(size) / kDropoutGroup; ++group) {
    float drawn[kDropoutGroup] = {1, 1, 1, 1, 1, 1, 1, 1};
    if (dropout.drops())
      dropout.draw(static_cast<std::int64_t>(item) * dropout_row(size) / kDropoutGroup + group, drawn);
    factor.insert(factor.end(), drawn, drawn + kDropoutGroup);
  }
  factor.resize(size);
  return factor;
}
Numbers product(const Numbers& x, const Numbers& factor) {
  Numbers y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(x[i] * factor[i]);
  return y;
}

// Of rows [B T, 3 H C], the taps of each column [3 H C, 4] and its bias, which may be empty.
Numbers plain_convolution(const PassesCase& c, const Numbers& rows, const Numbers& taps, const Numbers& bias) {
  const std::size_t width = taps.size() / 4;
  Numbers y;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t step = i / width % c.steps, column = i % width;
    y.push_back(bias.empty() ? 0 : bias[column]);
    for (std::size_t back = 0; back <= std::min<std::size_t>(step, 3); ++back)
      y.back() += taps[column * 4 + 3 - back] * rows[i - back * width];
  }
  return y;
}

// The features [rows, 3, H, widest], what the window reads, and the values' features without the ones, one behind the
// other. in: a projection [rows, 3, H, C], and behind it the convolution and its bias where there are some. What the
// window reads is what dropout leaves of the projection, or behind a convolution of its queries and keys alone.
Numbers plain_features(const PassesCase& c, const Numbers& in) {
  passes::FeaturePart part[passes::kParts];
  c.fill(part, kPassesSeedTick);
  const std::size_t width = 3 * c.heads * c.channels, size = c.rows() * width;
  Numbers projected = testing::part(in, 0, size);
  if (c.convolution)
    projected = plain_convolution(c, projected, testing::part(in, size, 4 * width),
                                  testing::part(in, size + 4 * width, in.size() - size - 4 * width));
  Numbers features, left, values;
  for (std::size_t i = 0; i < projected.size() / c.channels; ++i) {
    const std::size_t which = i / c.heads % 3, item = i / c.heads / 3 * c.heads + i % c.heads;
    Numbers x(projected.begin() + i * c.channels, projected.begin() + (i + 1) * c.channels);
    if (which < 2) x = product(x, factors(part[which].dropout, item, c.channels));
    Numbers y = plain_map(part[which].map, x);
    if (which == 2) y = product(y, factors(part[2].dropout, item, c.channels));
    y = plain_norm(part[which].norm, y);
    if (which < 2 || !c.convolution) append(left, x);
    if (which == 2) append(values, y);
    if (which == 2 && c.one) y.push_back(1);
    y.resize(c.widest());
    append(features, y);
  }
  append(features, left);
  append(features, values);
  return features;
}

// ---- Mixes

Numbers divided_by_rms(Numbers x, double epsilon) {
  double square = 0;
  for (const double element : x) square += element * element;
  for (double& element : x) element /= std::sqrt(square / static_cast<double>(x.size()) + epsilon);
  return x;
}

// A head's output; in: answer and its norm, window, the mix's gate, weight and output gate one behind the other.
Numbers plain_mix(const AnswerCase& c, double one, const Numbers& in) {
  const int width = c.channels, gates = c.mix == Mix::kVector ? width : c.mix == Mix::kScalar ? 2 : 0;
  Numbers o = part(in, 0, width), w = part(in, c.answer(), width), m;
  const double norm = c.norm == AnswerNorm::kNone ? 0 : in[width];
  const double divisor = c.norm == AnswerNorm::kSum          ? norm + passes::kNormEpsilon
                         : c.norm == AnswerNorm::kAtLeastOne ? std::max(std::abs(norm), one)
                                                             : 1;
  for (double& element : o) element /= divisor;
  if (c.branch_norm) o = divided_by_rms(o, c.kind().epsilon), w = divided_by_rms(w, c.kind().epsilon);
  const double *gate = &in[c.answer() + width], *weight = gate + gates;
  for (int i = 0; i < width; ++i) {
    const double a = c.mix == Mix::kSum ? 1 : sigmoid(gate[c.mix == Mix::kVector ? i : 0]);
    const double b = c.mix == Mix::kSum ? 1 : c.mix == Mix::kVector ? 1 - a : sigmoid(gate[1]);
    m.push_back(a * o[i] + b * w[i]);
  }
  m = divided_by_rms(m, c.kind().epsilon);
  for (int i = 0; i < width; ++i) {
    m[i] *= weight[i];
    if (c.gated()) m[i] *= sigmoid(weight[width + i]) * (c.gate == passes::AnswerGate::kSilu ? weight[width + i] : 1);
  }
  return m;
}

}  // namespace

TEST_CASE("features beside a window, what it reads and their gradients are those of plain formulas") {
  struct Form {
    Map map;
    FeatureNorm norm;
  };
  unsigned seed = 1;
  for (const Form& form : {Form{Map::kSilu, FeatureNorm::kLength},
                           {Map::kSilu, FeatureNorm::kNone},
                           {Map::kElu, FeatureNorm::kSum},
                           {Map::kDpfp, FeatureNorm::kSum}})
    for (const double dropout : {0.0, 0.3})
      for (const bool one : {false, true}) {
        PassesCase c{2, 3, 2, 9, form.map, form.norm, Dtype::kFloat32};
        c.dropout = dropout, c.one = one, c.seed = seed++, c.window = true;
        const std::string name = c.name();
        INFO(name);
        PassesProblem p = make_passes(c);
        Numbers left;
        Numbers actual = passes::features_reference(p.input, &left);
        append(actual, left);
        CHECK(relative_error(actual, part(plain_features(c, p.input.projected), 0, actual.size())) < kBound);

        Numbers of_window = p.window.projected;  // of which that of the values is not read
        for (std::size_t i = 0; i < of_window.size(); ++i)
          if (i / c.channels / c.heads % 3 == 2) of_window[i] = 0;
        Numbers weight = p.d_features;
        append(weight, of_window);
        append(weight, p.window.value);
        const Numbers wanted =
            numeric_gradient([&](const Numbers& x) { return plain_features(c, x); }, p.input.projected, weight);
        p.input.projected = left;
        const Numbers got = passes::features_reference_backward(p.input, p.d_features, p.window).projected;
        CHECK(relative_error(got, wanted) < kBound);
      }
}

// Sequences of two strips, of which one takes steps of the other.
TEST_CASE("features of a convolution beside a window, what it reads and their gradients are those of plain formulas") {
  struct Form {
    Map map;
    FeatureNorm norm;
  };
  unsigned seed = 1;
  for (const Form& form :
       {Form{Map::kSilu, FeatureNorm::kLength}, {Map::kElu, FeatureNorm::kSum}, {Map::kDpfp, FeatureNorm::kSum}})
    for (const double dropout : {0.0, 0.3}) {
      PassesCase c{2, 21, 2, 9, form.map, form.norm, Dtype::kFloat32};
      c.dropout = dropout, c.bias = c.one = seed % 4 < 2, c.seed = seed++, c.convolution = c.window = true;
      const std::string name = c.name();
      INFO(name);
      const PassesProblem p = make_passes(c);
      Numbers in = p.input.projected;
      append(in, p.input.convolution);
      append(in, p.input.bias);
      Numbers left, window_rows, actual = passes::features_reference(p.input, &left, &window_rows);
      CHECK(left == p.input.projected);
      append(actual, window_rows);
      CHECK(relative_error(actual, part(plain_features(c, in), 0, actual.size())) < kBound);

      Numbers weight = p.d_features;
      append(weight, p.window.rows);
      append(weight, p.window.value);
      const Numbers wanted = numeric_gradient([&](const Numbers& x) { return plain_features(c, x); }, in, weight);
      const auto got = passes::features_reference_backward(p.input, p.d_features, p.window);
      const std::size_t rows = got.projected.size(), taps = got.convolution.size();
      CHECK(relative_error(got.projected, part(wanted, 0, rows)) < kBound);
      CHECK(relative_error(got.convolution, part(wanted, rows, taps)) < kBound);
      if (c.bias) CHECK(relative_error(got.bias, part(wanted, rows + taps, got.bias.size())) < kBound);
    }
}

TEST_CASE("mixes of fast weights' answers with a window's and their gradients are those of plain formulas") {
  for (const Mix mix : {Mix::kSum, Mix::kScalar, Mix::kVector})
    for (const AnswerNorm norm : {AnswerNorm::kNone, AnswerNorm::kSum, AnswerNorm::kAtLeastOne})
      for (const bool branch_norm : {false, true})
        for (const bool scaled : {false, true})
          for (const passes::AnswerGate output : kAnswerGates) {
            AnswerCase c{norm, output, 7, 3, 9, 16, Dtype::kFloat32};
            c.mix = mix, c.branch_norm = branch_norm, c.scaled = scaled && norm == AnswerNorm::kAtLeastOne;
            const std::string name = c.name();
            INFO(name);
            const AnswerProblem p = make_answer(c);
            Numbers out, answer, norms, window, mix_gate, gate, weight(c.channels);
            const int gates = static_cast<int>(p.input.mix_gate.size() / c.items());
            for (std::size_t i = 0; i < c.items(); ++i) {
              Numbers in = part(p.input.answer, i * c.answer(), c.answer());
              append(in, part(p.input.window, i * c.channels, c.channels));
              append(in, part(p.input.mix_gate, i * gates, gates));
              append(in, p.input.weight);
              if (c.gated()) append(in, part(p.input.gate, i * c.channels, c.channels));
              const auto plain = [&](const Numbers& x) { return plain_mix(c, c.scaled ? p.input.one[i] : 1, x); };
              append(out, plain(in));
              const Numbers d = numeric_gradient(plain, in, part(p.d_out, i * c.channels, c.channels));
              append(answer, part(d, 0, c.channels));
              append(norms, part(d, c.channels, c.answer() - c.channels));
              append(window, part(d, c.answer(), c.channels));
              append(mix_gate, part(d, c.answer() + c.channels, gates));
              for (int j = 0; j < c.channels; ++j) weight[j] += d[c.answer() + c.channels + gates + j];
              if (c.gated()) append(gate, part(d, c.answer() + 2 * c.channels + gates, c.channels));
            }
            CHECK(relative_error(passes::answer_reference(p.input), out) < kBound);
            const auto got = passes::answer_reference_backward(p.input, p.d_out);
            CHECK(relative_error(columns(got.answer, c.answer(), 0, c.channels), answer) < kBound);
            CHECK(relative_error(columns(got.answer, c.answer(), c.channels, c.answer() - c.channels), norms) < 1e-5);
            CHECK(relative_error(got.window, window) < kBound);
            CHECK(relative_error(got.mix_gate, mix_gate) < kBound);
            CHECK(relative_error(got.gate, gate) < kBound);
            CHECK(relative_error(got.weight, weight) < kBound);
          }
}
