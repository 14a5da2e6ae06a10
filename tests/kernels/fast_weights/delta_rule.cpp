#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "kernels/fast_weights/delta_rule/step.h"
#include "tests/kernels/fast_weights/delta_rule_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

void check_case(const Case& c) {
  const KernelResult actual = check_delta_rule(c, "the kernels of its shape");
  if (c.decay != DecayKind::kNone && c.shape.time == 1)  // the first step has nothing that could decay
    for (const double x : actual.log_decay) CHECK(x == 0);
}

void check_step(int rows, int heads, int width, Dtype dtype, const OtherRule& rule) {
  Case c{{rows, 1, heads, width}, dtype};
  c.write = rule.write, c.decay = rule.decay;
  c.ragged = false, c.states = true;
  INFO(c.name());
  const DeltaRuleReferenceInput in = make_problem(c).input;
  const auto expected = delta_rule_reference(in);
  const DeviceBytes q = upload(in.q_BTHD, dtype), k = upload(in.k_BTHD, dtype), v = upload(in.v_BTHD, dtype),
                    beta = upload(in.beta_BTH, dtype), log_decay = upload(in.log_decay_BTH, Dtype::kFloat32);
  DeviceBytes state = upload(in.initial_state_BHKV, Dtype::kFloat32), output = poisoned(in.q_BTHD.size(), dtype);
  delta_rule_step({rows, heads, width, dtype, static_cast<float>(in.scale), q.data(), k.data(), v.data(), beta.data(),
                   floats(state), output.data(), rule.write, floats(log_decay)},
                  nullptr);
  // Only the output is rounded to bfloat16 (0.0017; 0.0023 over two elements); the state is float, with sums of at
  // most 128 terms. Of a state that is gone the output is what was just written, times a single q . k, which may all
  // but cancel.
  const double single = rule.decay == DecayKind::kStrong ? 1e-5 : 1e-6;
  CHECK(relative_error(download(output, dtype), expected.output_BTHD) <= (dtype == Dtype::kFloat32 ? single : 0.003));
  CHECK(relative_error(download(state, Dtype::kFloat32), expected.final_state_BHKV) <= 1e-6);
}

// Rows of 50 are aligned to 4 bytes alone, and are walked by other kernels than those of 56 (chain.h).
constexpr std::pair<Dtype, int> kTypesAndWidths[] = {
    {Dtype::kFloat32, 50}, {Dtype::kBfloat16, 50}, {Dtype::kBfloat16, 56}};

}  // namespace

TEST_CASE("the chunked passes equal the recurrence's at every shape") {
  if (skip_without_gpu()) return;
  const auto cases = all_cases();
  REQUIRE(cases.size() >= 200);
  check_each(cases, check_case);
}

TEST_CASE("the chunked passes equal the recurrence's at the edges of the inputs") {
  if (skip_without_gpu()) return;
  check_each(edge_cases(), check_case);
}

TEST_CASE("the chunked passes of every rule and decay equal the recurrence's at every shape") {
  if (skip_without_gpu()) return;
  check_each(rule_cases(), check_case);
}

TEST_CASE("the chunked passes of every rule and decay equal the recurrence's at the edges of the inputs") {
  if (skip_without_gpu()) return;
  check_each(rule_edge_cases(), check_case);
}

// Few and small, so that compute-sanitizer can watch them: test_kernels --test-case="small shapes*"
TEST_CASE("small shapes of every kind, forward and backward") {
  if (skip_without_gpu()) return;
  unsigned seed = 500;
  for (const Dtype dtype : kDtypes)
    for (const int width : {16, 50, 64, 100, 128, 56})
      for (const int time : {1, 33, 130}) {
        Case c{{3, time, 2, width}, dtype};
        c.gap = width == 56 ? 2 * c.shape.heads * width : width % 4;
        c.seed = seed++;
        check_case(c);
        for (const OtherRule& rule : kOtherRules) {
          c.write = rule.write, c.decay = rule.decay;
          check_case(c);
        }
      }
}

TEST_CASE("decays of 1 give what no decay gives, forward and backward") {
  if (skip_without_gpu()) return;
  for (const FastWeightWrite write : {FastWeightWrite::kDelta, FastWeightWrite::kSum})
    for (const Dtype dtype : kDtypes)
      for (const int width : {56, 128}) {
        Case c{{3, 200, 2, width}, dtype};
        c.write = write;
        c.decay = DecayKind::kOne;
        INFO(c.name());
        const Problem problem = make_problem(c);
        const auto run = [&](DecayKind decay) {
          Case other = c;
          other.decay = decay;
          return DeviceProblem(other, problem).forward_and_backward();
        };
        const KernelResult with = run(DecayKind::kOne), without = run(DecayKind::kNone);
        const double bound = write == FastWeightWrite::kSum ? 0 : dtype == Dtype::kFloat32 ? 2e-6 : 0.006;
        CHECK(relative_error(with.output, without.output) <= bound);
        CHECK(relative_error(with.q, without.q) <= bound);
        CHECK(relative_error(with.k, without.k) <= bound);
        CHECK(relative_error(with.v, without.v) <= bound);
        CHECK(relative_error(with.beta, without.beta) <= bound);
      }
}

// Products are formed of 16 steps at once, some of them with weights of zero.
TEST_CASE("NaN in one step reaches no earlier block of 16 steps") {
  if (skip_without_gpu()) return;
  constexpr int kStep = 90;
  std::vector<Case> cases;
  for (const auto& [dtype, width] : kTypesAndWidths) {
    cases.push_back({{1, 130, 1, width}, dtype});
    if (width != 50) continue;
    for (const OtherRule& rule : kOtherRules) {
      cases.push_back({{1, 130, 1, width}, dtype});
      cases.back().write = rule.write, cases.back().decay = rule.decay;
    }
  }
  for (Case& c : cases) {
    c.ragged = false;
    INFO(c.name());
    const Problem problem = make_problem(c);
    const auto output = [&](const Problem& of) {
      DeviceProblem device(c, of);
      device.forward();
      return device.result().output;
    };
    const auto expected = output(problem);
    const auto check = [&](auto spoil) {
      Problem spoilt = problem;
      spoil(spoilt.input);
      const auto actual = output(spoilt);
      CHECK(std::equal(expected.begin(), expected.begin() + kStep / 16 * 16 * c.shape.width, actual.begin()));
      CHECK(std::isnan(actual[kStep * c.shape.width]));
    };
    check([&](DeltaRuleReferenceInput& in) { in.v_BTHD[kStep * c.shape.width] = kNaN; });
    check([&](DeltaRuleReferenceInput& in) { in.k_BTHD[kStep * c.shape.width] = kNaN; });
    if (c.decay != DecayKind::kNone) check([&](DeltaRuleReferenceInput& in) { in.log_decay_BTH[kStep] = kNaN; });
  }
}

TEST_CASE("a decay of 0 forgets everything") {
  if (skip_without_gpu()) return;
  for (const FastWeightWrite write : {FastWeightWrite::kDelta, FastWeightWrite::kSum})
    for (const Dtype dtype : kDtypes) {
      Case c{{2, 150, 2, 56}, dtype};
      c.write = write, c.decay = DecayKind::kForgetful;
      INFO(c.name());
      const Problem problem = make_problem(c);
      const KernelResult actual = DeviceProblem(c, problem).forward_and_backward();
      CHECK(relative_error(actual.output, delta_rule_reference(problem.input).output_BTHD) <= forward_tolerance(c));
      const auto expected = delta_rule_reference_backward(problem.input, problem.output_gradient);
      CHECK(relative_error(actual.k, expected.k_BTHD) <= (dtype == Dtype::kFloat32 ? 1e-5 : 0.025));
      CHECK(relative_error(actual.log_decay, expected.log_decay_BTH) <= (dtype == Dtype::kFloat32 ? 1e-4 : 0.025));
    }
}

TEST_CASE("NaN in one row reaches no other") {
  if (skip_without_gpu()) return;
  for (const auto& [dtype, width] : kTypesAndWidths) {
    Case c{{3, 130, 2, width}, dtype};
    c.ragged = false;
    INFO(c.name());
    Problem problem = make_problem(c);
    const auto run = [&] {
      DeviceProblem device(c, problem);
      device.forward();
      return device.result().output;
    };
    const Numbers expected = run();
    const std::size_t row = expected.size() / 3;
    std::fill_n(problem.input.v_BTHD.begin() + row, row, kNaN);
    std::fill_n(problem.input.k_BTHD.begin() + row, row, kNaN);
    const Numbers actual = run();
    CHECK(equal_but_for(expected, actual, row, 1, 2));
    CHECK(std::isnan(actual[row]));
  }
}

TEST_CASE("the same input gives the same bits 1,000 times") {
  if (skip_without_gpu()) return;
  const auto check = [](const Case& c, int times) {
    INFO(c.name());
    DeviceProblem device(c, make_problem(c));
    CHECK(different_runs([&] { return device.forward_and_backward().bytes; }, times) == 0);
  };
  for (const auto& [dtype, width] : kTypesAndWidths) {
    Case c{{4, 200, 2, width}, dtype};
    check(c, 1000);
    if (width != 50) continue;
    for (const OtherRule& rule : kOtherRules) {
      c.write = rule.write, c.decay = rule.decay;
      check(c, 20);
    }
  }
}

TEST_CASE("a step of slices of rows, into wider outputs, is that of tight ones, and sums up its keys") {
  if (skip_without_gpu()) return;
  constexpr int kRows = 5, kHeads = 3, kWidth = 50, kPadded = 56, kRowStride = 3 * kHeads * kPadded;
  for (const OtherRule& rule : kOtherRules) {
    if (rule.write != FastWeightWrite::kSum || rule.decay == DecayKind::kNone) continue;
    Case c{{kRows, 1, kHeads, kWidth}, Dtype::kFloat32};
    c.write = rule.write, c.decay = rule.decay;
    c.ragged = false, c.states = true;
    INFO(c.name());
    const DeltaRuleReferenceInput in = make_problem(c).input;
    std::vector<double> sliced(kRows * kRowStride, 7), sums(kRows * kHeads * kWidth);
    const std::vector<double>* const parts[] = {&in.q_BTHD, &in.k_BTHD, &in.v_BTHD};
    const auto at = [&](int row, int head, int channel) { return (row * kHeads + head) * kWidth + channel; };
    for (int row = 0; row < kRows; ++row)
      for (int head = 0; head < kHeads; ++head)
        for (int channel = 0; channel < kWidth; ++channel) {
          for (int part = 0; part < 3; ++part)
            sliced[row * kRowStride + (part * kHeads + head) * kPadded + channel] =
                (*parts[part])[at(row, head, channel)];
          sums[at(row, head, channel)] = 0.25 * (channel % 7);
        }
    const DeviceBytes rows = upload(sliced, Dtype::kFloat32), beta = upload(in.beta_BTH, Dtype::kFloat32),
                      log_decay = upload(in.log_decay_BTH, Dtype::kFloat32);
    DeviceBytes state = upload(in.initial_state_BHKV, Dtype::kFloat32), key_sum = upload(sums, Dtype::kFloat32),
                output = poisoned(kRows * kHeads * kPadded, Dtype::kFloat32);
    const auto part = [&](int number) { return floats(rows) + number * kHeads * kPadded; };
    delta_rule_step({.rows = kRows,
                     .heads = kHeads,
                     .width = kWidth,
                     .dtype = Dtype::kFloat32,
                     .scale = static_cast<float>(in.scale),
                     .q_NHD = part(0),
                     .k_NHD = part(1),
                     .v_NHD = part(2),
                     .beta_NH = beta.data(),
                     .state_NHKV = floats(state),
                     .output_NHD = output.data(),
                     .write = rule.write,
                     .log_decay_NH = floats(log_decay)},
                    {kRowStride, kPadded, kPadded, floats(key_sum)}, nullptr);
    const auto expected = delta_rule_reference(in);
    const auto padded = download(output, Dtype::kFloat32), summed = download(key_sum, Dtype::kFloat32);
    std::vector<double> tight, along, expected_along, expected_sums;
    for (int i = 0; i < kRows * kHeads; ++i) {
      double product = 0;
      for (int channel = 0; channel < kWidth; ++channel) {
        tight.push_back(padded[i * kPadded + channel]);
        const int from = i * kWidth + channel;
        const double sum = std::exp(in.log_decay_BTH[i]) * sums[from] + in.beta_BTH[i] * in.k_BTHD[from];
        expected_sums.push_back(sum);
        product += sum * in.q_BTHD[from];
      }
      along.push_back(padded[i * kPadded + kWidth]);
      expected_along.push_back(in.scale * product);
      for (int behind = kWidth + 1; behind < kPadded; ++behind) CHECK(padded[i * kPadded + behind] == 0);
    }
    const double single = rule.decay == DecayKind::kStrong ? 1e-5 : 1e-6;
    CHECK(relative_error(tight, expected.output_BTHD) <= single);
    CHECK(relative_error(download(state, Dtype::kFloat32), expected.final_state_BHKV) <= 1e-6);
    CHECK(relative_error(summed, expected_sums) <= 1e-6);
    CHECK(relative_error(along, expected_along) <= 1e-5);
  }
}

TEST_CASE("a step equals the recurrence, for every rule, number of rows and width") {
  if (skip_without_gpu()) return;
  std::vector<OtherRule> rules{{FastWeightWrite::kDelta, DecayKind::kNone}};
  rules.insert(rules.end(), std::begin(kOtherRules), std::end(kOtherRules));
  for (const OtherRule& rule : rules)
    for (const int rows : {1, 2, 37})
      for (const int heads : {1, 3})
        for (const int width : {2, 16, 40, 50, 60, 64, 100, 126, 128})
          for (const Dtype dtype : kDtypes) check_step(rows, heads, width, dtype, rule);
}
