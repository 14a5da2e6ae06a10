#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/fast_weights/fast_weight_passes_case.h"

using namespace engram;
using namespace engram::testing;
using passes::AnswerGate;
using passes::AnswerNorm;
using passes::FeatureNorm;
using passes::LogDecay;
using passes::Map;
using passes::Write;

namespace {

// Results of one rounding; in float the differences of a norm's gradient and exponentials lose a few bits more.
double forward_tolerance(Dtype dtype) { return rounded_once(dtype); }
double gradient_tolerance(Dtype dtype) { return dtype == Dtype::kFloat32 ? 2e-5 : rounded_once(dtype); }
// FAVOR+ takes exponentials of numbers up to ten or so, whose roundings are as many times as large.
double of_map(const PassesCase& c, double tolerance) { return c.map == Map::kFavor ? 5 * tolerance : tolerance; }
// Of sums in float over all rows, whatever the rows' type is.
constexpr double kSumTolerance = 2e-5;

void check_features(const PassesCase& c) {
  const std::string name = c.name();
  INFO(name);
  PassesProblem p = make_passes(c);
  PassesDevice device(c, p);
  device.run();
  Numbers left, window_rows;
  CHECK(relative_error(device.features_result(), passes::features_reference(p.input, &left, &window_rows)) <=
        std::max(forward_tolerance(c.dtype), of_map(c, forward_tolerance(Dtype::kFloat32))));
  if (c.reads_rows()) CHECK(relative_error(device.window_rows_result(), window_rows) <= forward_tolerance(c.dtype));
  // The forward pass goes on with what it drops in registers; the backward pass reads it as it is stored.
  for (double& x : left) x = rounded(x, c.dtype);
  CHECK(device.of_projection(device.projected) == left);
  p.input.projected = left;
  const auto expected = passes::features_reference_backward(p.input, p.d_features, p.window);
  CHECK(relative_error(device.of_projection(device.d_projected), expected.projected) <=
        std::max(gradient_tolerance(c.dtype), of_map(c, gradient_tolerance(Dtype::kFloat32))));
  if (c.convolution)
    CHECK(relative_error(download(device.d_convolution, Dtype::kFloat32), expected.convolution) <=
          of_map(c, kSumTolerance));
  if (c.bias)
    CHECK(relative_error(download(device.d_bias, Dtype::kFloat32), expected.bias) <= of_map(c, kSumTolerance));
}

// Every map with every norm that it goes with, with the convolution and without, both alone and with a window, for head
// widths that fill lanes and that do not, sequences shorter than a strip, of one, and longer.
std::vector<PassesCase> feature_cases() {
  struct Size {
    int batch, steps, heads, channels;
  };
  std::vector<PassesCase> all;
  unsigned seed = 1;
  for (const Dtype dtype : kDtypes)
    for (const Size& size : {Size{2, 1, 3, 9},
                             {3, 16, 2, 50},
                             {5, 35, 1, 64},
                             {2, 130, 2, 50},
                             {1, 19, 2, 127},
                             {70, 33, 1, 16},
                             {1, 1, 1, 128}})
      for (const Map map : {Map::kIdentity, Map::kSilu, Map::kRelu, Map::kElu, Map::kDpfp, Map::kFavor})
        for (const FeatureNorm norm : {FeatureNorm::kNone, FeatureNorm::kLength, FeatureNorm::kSum}) {
          const bool is_signed = map == Map::kIdentity || map == Map::kSilu;
          if (is_signed && norm == FeatureNorm::kSum) continue;
          for (const bool convolution : {false, true}) {
            PassesCase c{size.batch, size.steps, size.heads, size.channels, map, norm, dtype};
            c.convolution = convolution;
            c.bias = convolution && seed % 4 < 2;
            c.nu = map == Map::kDpfp && size.channels <= 16 ? 3 : 1;
            if (map == Map::kFavor) c.directions = size.channels == 50 ? 64 : 13;
            if (c.features() > 128) continue;
            c.one = seed % 2 == 0 && size.channels < 128;
            c.value_silu = seed % 3 != 0;
            c.dropout = seed % 5 == 0 ? 0 : 0.2;
            c.seed = seed++;
            all.push_back(c);
            c.window = true;
            if (!convolution) c.seed = seed++;
            all.push_back(c);
          }
        }
  return all;
}

void check_strengths(const StrengthsCase& c) {
  const std::string name = c.name();
  INFO(name);
  const StrengthsProblem p = make_strengths(c);
  StrengthsDevice device(c, p);
  device.run();
  const auto expected = passes::strengths_reference(p.input, c.rows);
  CHECK(relative_error(download(device.write, c.dtype), expected.write) <= forward_tolerance(c.dtype));
  if (passes::gives_log_decay(c.kind))
    CHECK(relative_error(download(device.log_decay, Dtype::kFloat32), expected.log_decay) <=
          forward_tolerance(Dtype::kFloat32));
  if (c.is_scaled())
    CHECK(relative_error(download(device.one, Dtype::kFloat32), expected.one) <= forward_tolerance(Dtype::kFloat32));
  if (c.logits() == 0) return;
  const auto d = passes::strengths_reference_backward(p.input, p.d);
  // An exponential's gradient takes the write strength as it was rounded.
  if (c.has_write())
    CHECK(relative_error(device.logits_result(0, c.heads), d.write_logits) <=
          (c.is_scaled() ? 2 : 1) * gradient_tolerance(c.dtype));
  if (c.write_bias) {  // likewise, summed: terms that cancel leave their errors behind
    double terms = 0, sums = 0;
    for (std::size_t i = 0; i < d.write_logits.size(); ++i) terms += std::abs(d.write_logits[i]);
    for (const double sum : d.write_bias_H) sums += std::abs(sum);
    const double bound = c.is_scaled() && c.dtype == Dtype::kBfloat16 ? gradient_tolerance(c.dtype) * terms / sums : 0;
    CHECK(relative_error(download(device.d_write_bias, Dtype::kFloat32), d.write_bias_H) <=
          std::max(kSumTolerance, bound));
  }
  if (c.has_decay()) {
    CHECK(relative_error(device.logits_result(c.decay_column(), c.heads), d.decay_logits) <=
          gradient_tolerance(c.dtype));
    CHECK(relative_error(download(device.d_bias, Dtype::kFloat32), d.bias_H) <= kSumTolerance);
    CHECK(relative_error(download(device.d_log_rate, Dtype::kFloat32), d.log_rate_H) <= kSumTolerance);
  }
  const Numbers behind = device.logits_result(c.used(), c.logits() - c.used());
  CHECK(behind == Numbers(behind.size()));
}

const std::vector<passes::StrengthKind> kStrengths = {
    {Write::kOne, LogDecay::kNone, 1},        {Write::kOne, LogDecay::kFixed, 1},
    {Write::kOne, LogDecay::kScalar, 1},      {Write::kSigmoid, LogDecay::kNone, 2},
    {Write::kSigmoid, LogDecay::kFixed, 1},   {Write::kSigmoid, LogDecay::kScalar, 2},
    {Write::kSigmoid, LogDecay::kOfWrite, 1}, {Write::kStep, LogDecay::kScalar, 1}};
const std::vector<passes::StrengthKind> kScaledStrengths = {{Write::kExponential, LogDecay::kNone, 1},
                                                            {Write::kExponential, LogDecay::kFixed, 1},
                                                            {Write::kExponential, LogDecay::kScalar, 1}};

void check_answer(const AnswerCase& c) {
  const std::string name = c.name();
  INFO(name);
  const AnswerProblem p = make_answer(c);
  AnswerDevice device(c, p);
  device.run();
  CHECK(relative_error(device.out_result(), passes::answer_reference(p.input)) <= forward_tolerance(c.dtype));
  const auto expected = passes::answer_reference_backward(p.input, p.d_out);
  const Numbers d_answer = device.answer_result();
  CHECK(relative_error(columns(d_answer, c.answer(), 0, c.channels),
                       columns(expected.answer, c.answer(), 0, c.channels)) <= gradient_tolerance(c.dtype));
  if (c.norm != AnswerNorm::kNone)  // of another size; of a mix a sum over the head, of terms that cancel in part
    CHECK(relative_error(columns(d_answer, c.answer(), c.channels, 1),
                         columns(expected.answer, c.answer(), c.channels, 1)) <=
          (c.mixes() ? 2 : 1) * gradient_tolerance(c.dtype));
  if (c.gated()) CHECK(relative_error(device.gate_result(), expected.gate) <= gradient_tolerance(c.dtype));
  if (c.mix_gated()) CHECK(relative_error(device.mix_gate_result(), expected.mix_gate) <= gradient_tolerance(c.dtype));
  if (c.mixes()) CHECK(relative_error(device.window_result(), expected.window) <= gradient_tolerance(c.dtype));
  CHECK(relative_error(download(device.d_weight, Dtype::kFloat32), expected.weight) <= kSumTolerance);
  if (!c.skip) return;
  CHECK(relative_error(download(device.d_skip, Dtype::kFloat32), expected.skip_H) <= kSumTolerance);
  // Added to what the memory left, from the answer's gradient as it was rounded.
  Numbers d_values = p.d_values;
  for (std::size_t i = 0; i < d_values.size(); ++i) d_values[i] += expected.values[i];
  CHECK(relative_error(device.values_result(), d_values) <= 2 * gradient_tolerance(c.dtype));
}

std::vector<AnswerCase> answer_cases(std::initializer_list<int> widths, std::initializer_list<int> rows) {
  std::vector<AnswerCase> all;
  for (const Dtype dtype : kDtypes)
    for (const int width : widths)
      for (const int n : rows)
        for (const AnswerNorm norm : {AnswerNorm::kNone, AnswerNorm::kSum, AnswerNorm::kAtLeastOne})
          for (const AnswerGate gate : kAnswerGates) {
            all.push_back({norm, gate, n, 2, width, width == 50 ? 104 : 8, dtype});
            for (const int heads : {1, 2, 3, 70})  // more than a block of one row has slots, and no divisor of them
              if (norm == AnswerNorm::kNone && (heads < 70 || n < 100)) {
                all.push_back({norm, gate, n, heads, width, width == 50 ? 104 : 8, dtype});
                all.back().skip = true;
              }
            if (norm != AnswerNorm::kAtLeastOne) continue;
            all.push_back(all.back());
            all.back().scaled = true;
          }
  return all;
}

std::vector<AnswerCase> mix_cases(std::initializer_list<int> widths, std::initializer_list<int> rows) {
  std::vector<AnswerCase> all;
  int heads = 1;  // up to more than a scalar mix has in a vector
  for (const Dtype dtype : kDtypes)
    for (const int width : widths)
      for (const int n : rows)
        for (const passes::Mix mix : {passes::Mix::kSum, passes::Mix::kScalar, passes::Mix::kVector})
          for (const AnswerNorm norm : {AnswerNorm::kNone, AnswerNorm::kSum, AnswerNorm::kAtLeastOne})
            for (const bool branch_norm : {false, true}) {
              AnswerCase c{norm, kAnswerGates[all.size() % kAnswerGates.size()], n, heads, width, width == 50 ? 104 : 8,
                           dtype};
              c.scaled = norm == AnswerNorm::kAtLeastOne && heads % 2 == 0;
              c.mix = mix, c.branch_norm = branch_norm;
              heads = heads % 5 + 1;
              if (c.answer() <= 128) all.push_back(c);
            }
  return all;
}

}  // namespace

TEST_CASE("features of fast weights and their gradients equal the definition's") {
  if (skip_without_gpu()) return;
  for (const PassesCase& c : feature_cases()) check_features(c);
}

TEST_CASE("write strengths, decays and their gradients equal the definition's") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const passes::StrengthKind& kind : kStrengths)
      for (const int heads : {1, 2, 3, 8, 300})
        for (const int rows : {1, 37, 5003})
          for (const bool write_bias : {false, true})
            if ((heads < 300 || rows < 100) && (!write_bias || passes::has_write_logit(kind)))
              check_strengths({kind, rows, heads, dtype, 1, write_bias});
}

// Sequences shorter than a warp's tile, of one, and longer; many, and one alone.
TEST_CASE("write strengths without a bound, their scale and their gradients equal the definition's") {
  if (skip_without_gpu()) return;
  struct Size {
    int rows, steps;
  };
  for (const Dtype dtype : kDtypes)
    for (const passes::StrengthKind& kind : kScaledStrengths)
      for (const int heads : {1, 2, 3, 8})
        for (const Size& size : {Size{1, 1}, {37, 1}, {93, 31}, {96, 32}, {66, 33}, {4720, 118}, {5003, 5003}})
          for (const bool write_bias : {false, true})
            check_strengths({kind, size.rows, heads, dtype, size.steps, write_bias});
}

TEST_CASE("answers of fast weights and their gradients equal the definition's") {
  if (skip_without_gpu()) return;
  for (const AnswerCase& c : answer_cases({5, 16, 50, 64, 100, 127}, {1, 33, 2503})) check_answer(c);
}

TEST_CASE("mixes of fast weights' answers with a window's and their gradients equal the definition's") {
  if (skip_without_gpu()) return;
  for (const AnswerCase& c : mix_cases({5, 8, 16, 50, 59, 64, 65, 111, 128}, {1, 7, 33, 129, 1203})) check_answer(c);
}

// A step reaches the three after it, in its own sequence, and with its gradient the three before those.
TEST_CASE("NaN in one step of fast weights reaches the convolution's steps and no other") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const auto& [convolution, window] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
      PassesCase c{3, 40, 2, 50, Map::kSilu, FeatureNorm::kLength, dtype};
      c.convolution = convolution, c.window = window;
      c.dropout = c.window ? 0.2 : 0;
      PassesProblem p = make_passes(c);
      PassesDevice clean(c, p);
      clean.run();
      const std::size_t row = 40 + 14, values = 3 * c.heads * c.channels, reach = convolution ? 3 : 0;
      std::fill_n(p.input.projected.begin() + row * values, values, std::nan(""));
      std::fill_n(p.d_features.begin() + (row + 1) * values, values, std::nan(""));  // channels are features here
      PassesDevice dirty(c, p);
      dirty.run();
      const std::size_t features = 3 * c.heads * c.features_padded(), columns_of_pass = c.stride() - kBehind;
      const Numbers dirty_features = download(dirty.features, c.dtype);
      CHECK(equal_but_for(download(clean.features, c.dtype), dirty_features, features, row, row + reach + 1));
      if (c.reads_rows())
        CHECK(equal_but_for(download(clean.window_rows, c.dtype), download(dirty.window_rows, c.dtype),
                            2 * c.heads * c.padded(), row, row + reach + 1));
      const auto gradient = [&](const PassesDevice& device) {
        return columns(download(device.d_projected, c.dtype), c.stride(), 0, c.stride() - kBehind);
      };
      CHECK(equal_but_for(gradient(clean), gradient(dirty), columns_of_pass, row - reach,
                          row + std::max<std::size_t>(reach, 1) + 1));
      CHECK(std::isnan(dirty_features[(row + reach) * features]));
    }
}

TEST_CASE("NaN in one row of a mix of fast weights reaches no other row") {
  if (skip_without_gpu()) return;
  for (const AnswerCase& c : mix_cases({50}, {37})) {
    const std::string name = c.name();
    INFO(name);
    AnswerProblem p = make_answer(c);
    AnswerDevice clean(c, p);
    clean.run();
    const std::size_t answer = static_cast<std::size_t>(c.heads) * c.answer(), out = c.heads * c.channels;
    std::fill_n(p.input.answer.begin() + 5 * answer, answer, std::nan(""));
    std::fill_n(p.d_out.begin() + 6 * out, out, std::nan(""));
    AnswerDevice dirty(c, p);
    dirty.run();
    const auto same = [&](DeviceBytes AnswerDevice::*of, std::size_t stride, std::size_t first, std::size_t last) {
      return equal_but_for(download(clean.*of, c.dtype), download(dirty.*of, c.dtype), stride, first, last);
    };
    const std::size_t padded = c.heads * c.padded();
    CHECK(same(&AnswerDevice::out, padded, 5, 6));
    CHECK(same(&AnswerDevice::d_answer, c.heads * c.answer_padded(), 5, 7));
    CHECK(same(&AnswerDevice::d_window, padded, 5, 7));
    const auto gates = [&](const AnswerDevice& device) {
      return columns(download(device.d_gates, c.dtype), c.stride(), 0, c.gate_columns() + c.mix_columns());
    };
    CHECK(equal_but_for(gates(clean), gates(dirty), c.gate_columns() + c.mix_columns(), 5, 7));
    CHECK(std::isnan(download(dirty.out, c.dtype)[5 * padded]));
  }
}

TEST_CASE("NaN in a step of fast weights reaches its features through every map") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const Map map : {Map::kIdentity, Map::kSilu, Map::kRelu, Map::kElu, Map::kDpfp, Map::kFavor}) {
      CAPTURE(static_cast<int>(map));
      PassesCase c{1, 3, 1, 16, map, FeatureNorm::kNone, dtype};
      if (map == Map::kFavor) c.directions = 13;
      PassesProblem p = make_passes(c);
      p.input.projected[5] = std::nan("");  // a channel of the first query
      PassesDevice device(c, p);
      device.run();
      const Numbers features = download(device.features, c.dtype);
      CHECK(std::any_of(features.begin(), features.begin() + c.features(), [](double x) { return std::isnan(x); }));
    }
}

TEST_CASE("the same passes of fast weights give the same bits 1,000 times") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes) {
    PassesCase c{31, 100, 2, 50, Map::kSilu, FeatureNorm::kLength, dtype};
    c.convolution = c.bias = true;
    c.dropout = 0.1;
    const StrengthsCase strengths{{Write::kSigmoid, LogDecay::kScalar, 1}, 3100, 2, dtype};
    const StrengthsCase scaled{{Write::kExponential, LogDecay::kScalar, 1}, 3100, 2, dtype, 100, /*write_bias=*/true};
    const AnswerCase answer{AnswerNorm::kSum, AnswerGate::kSilu, 3100, 2, 50, 56, dtype};
    PassesDevice features_device(c, make_passes(c));
    StrengthsDevice strengths_device(strengths, make_strengths(strengths));
    StrengthsDevice scaled_device(scaled, make_strengths(scaled));
    AnswerCase skipped{AnswerNorm::kNone, AnswerGate::kSilu, 3100, 3, 50, 56, dtype};
    skipped.skip = true;
    AnswerDevice answer_device(answer, make_answer(answer)), skipped_device(skipped, make_answer(skipped));
    c.convolution = c.bias = false, c.window = true;
    PassesDevice window_device(c, make_passes(c));
    c.convolution = true;
    PassesDevice beside_device(c, make_passes(c));
    AnswerCase mix{AnswerNorm::kNone, AnswerGate::kNone, 3100, 2, 50, 56, dtype};
    mix.mix = passes::Mix::kVector;
    AnswerDevice mix_device(mix, make_answer(mix));
    CHECK(different_runs([&] {
            features_device.run();
            strengths_device.run();
            scaled_device.run();
            answer_device.run();
            skipped_device.run();
            window_device.run();
            beside_device.run();
            mix_device.run();
            return std::vector{features_device.features.to_host(),
                               features_device.d_projected.to_host(),
                               features_device.d_convolution.to_host(),
                               features_device.d_bias.to_host(),
                               strengths_device.d_projected.to_host(),
                               strengths_device.d_bias.to_host(),
                               strengths_device.d_log_rate.to_host(),
                               scaled_device.write.to_host(),
                               scaled_device.log_decay.to_host(),
                               scaled_device.one.to_host(),
                               scaled_device.d_projected.to_host(),
                               scaled_device.d_write_bias.to_host(),
                               answer_device.d_answer.to_host(),
                               answer_device.d_gates.to_host(),
                               answer_device.d_weight.to_host(),
                               skipped_device.d_answer.to_host(),
                               skipped_device.d_skip.to_host(),
                               window_device.projected.to_host(),
                               window_device.features.to_host(),
                               window_device.d_projected.to_host(),
                               beside_device.window_rows.to_host(),
                               beside_device.features.to_host(),
                               beside_device.d_projected.to_host(),
                               beside_device.d_convolution.to_host(),
                               mix_device.out.to_host(),
                               mix_device.d_answer.to_host(),
                               mix_device.d_window.to_host(),
                               mix_device.d_gates.to_host(),
                               mix_device.d_weight.to_host()};
          }) == 0);
  }
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: fast weights' passes") {
  if (skip_without_gpu()) return;
  for (const PassesCase& c : feature_cases())
    if (c.batch * c.steps < 60) check_features(c);
  for (const passes::StrengthKind& kind : kStrengths) check_strengths({kind, 37, 3, Dtype::kBfloat16});
  for (const passes::StrengthKind& kind : kScaledStrengths)
    check_strengths({kind, 70, 3, Dtype::kBfloat16, 35, /*write_bias=*/true});
  for (const AnswerCase& c : answer_cases({5, 50}, {7})) check_answer(c);
  for (const AnswerCase& c : mix_cases({5, 50, 111}, {7})) check_answer(c);
}
