#include <doctest/doctest.h>

#include <limits>

#include "tests/kernels/delta_rule_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

// bfloat16 keeps 8 bits: rounding the output alone gives 0.0011, and a handful of rounded intermediates twice to
// three times that. float: 24 bits, a few hundred roundings. Where all keys are alike, decays keep fewer of the rounded
// terms, which then do not average out.
double tolerance(const Case& c) {
  if (c.dtype == Dtype::kFloat32) return 1e-5;
  return c.keys == Keys::kDuplicate && c.decay != DecayKind::kNone ? 0.012 : 0.005;
}

void check_case(const Case& c) {
  INFO(c.name());
  const Problem problem = make_problem(c);
  const auto expected = delta_rule_reference(problem.input);
  const std::lock_guard lock(gpu_in_use);
  DeviceProblem device(c, problem);
  device.poison();
  device.forward();
  CHECK(relative_error(device.result().output, expected.output_BTHD) <= tolerance(c));
}

}  // namespace

TEST_CASE("the chunked forward pass equals the recurrence at every shape") {
  if (skip_without_gpu()) return;
  const auto cases = all_cases();
  REQUIRE(cases.size() >= 200);
  check_each(cases, check_case);
}

TEST_CASE("the chunked forward pass equals the recurrence at the edges of its inputs") {
  if (skip_without_gpu()) return;
  check_each(edge_cases(), check_case);
}

TEST_CASE("the chunked forward pass of every rule and decay equals the recurrence at every shape") {
  if (skip_without_gpu()) return;
  check_each(rule_cases(), check_case);
}

TEST_CASE("the chunked forward pass of every rule and decay equals the recurrence at the edges of its inputs") {
  if (skip_without_gpu()) return;
  check_each(rule_edge_cases(), check_case);
}

TEST_CASE("decays of 1 give what no decay gives, forward and backward") {
  if (skip_without_gpu()) return;
  for (const FastWeightWrite write : {FastWeightWrite::kDelta, FastWeightWrite::kSum})
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
      for (const int width : {56, 128}) {
        Case c{{3, 200, 2, width}, dtype};
        c.write = write;
        c.decay = DecayKind::kOne;
        INFO(c.name());
        const Problem problem = make_problem(c);
        const auto run = [&](DecayKind decay) {
          Case other = c;
          other.decay = decay;
          DeviceProblem device(other, problem);
          device.poison();
          device.forward();
          device.backward();
          return device.result();
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
  for (const OtherRule& rule : kOtherRules)
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16}) {
      Case c{{1, 130, 1, 50}, dtype};
      c.ragged = false, c.write = rule.write, c.decay = rule.decay;
      INFO(c.name());
      const Problem problem = make_problem(c);
      const auto output = [&](const Problem& of) {
        DeviceProblem device(c, of);
        device.poison();
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
      check([&](DeltaRuleReferenceInput& in) { in.v_BTHD[kStep * c.shape.width] = std::nan(""); });
      check([&](DeltaRuleReferenceInput& in) { in.k_BTHD[kStep * c.shape.width] = std::nan(""); });
      if (c.decay != DecayKind::kNone)
        check([&](DeltaRuleReferenceInput& in) { in.log_decay_BTH[kStep] = std::nan(""); });
    }
}

TEST_CASE("a decay of 0 forgets everything") {
  if (skip_without_gpu()) return;
  for (const FastWeightWrite write : {FastWeightWrite::kDelta, FastWeightWrite::kSum})
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16}) {
      Case c{{2, 150, 2, 56}, dtype};
      c.write = write, c.decay = DecayKind::kMild;
      INFO(c.name());
      Problem problem = make_problem(c);
      for (std::size_t i = 0; i < problem.input.log_decay_BTH.size(); ++i)
        if (i % 7 == 3) problem.input.log_decay_BTH[i] = -std::numeric_limits<double>::infinity();
      DeviceProblem device(c, problem);
      device.poison();
      device.forward();
      device.backward();
      const KernelResult actual = device.result();
      CHECK(relative_error(actual.output, delta_rule_reference(problem.input).output_BTHD) <= tolerance(c));
      const auto expected = delta_rule_reference_backward(problem.input, problem.output_gradient);
      CHECK(relative_error(actual.k, expected.k_BTHD) <= (dtype == Dtype::kFloat32 ? 1e-5 : 0.025));
      CHECK(relative_error(actual.log_decay, expected.log_decay_BTH) <= (dtype == Dtype::kFloat32 ? 1e-4 : 0.025));
    }
}

TEST_CASE("NaN in one row reaches no other") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16}) {
    Case c{{3, 130, 2, 50}, dtype};
    c.ragged = false;
    Problem problem = make_problem(c);
    DeviceProblem clean(c, problem);
    clean.forward();
    const auto expected = clean.result().output;
    const std::size_t row = expected.size() / 3;
    std::fill_n(problem.input.v_BTHD.begin() + row, row, std::nan(""));
    std::fill_n(problem.input.k_BTHD.begin() + row, row, std::nan(""));
    DeviceProblem poisoned(c, problem);
    poisoned.poison();
    poisoned.forward();
    const auto actual = poisoned.result().output;
    CHECK(std::equal(expected.begin(), expected.begin() + row, actual.begin()));
    CHECK(std::isnan(actual[row]));
    CHECK(std::equal(expected.begin() + 2 * row, expected.end(), actual.begin() + 2 * row));
  }
}

TEST_CASE("the same input gives the same bits 1,000 times") {
  if (skip_without_gpu()) return;
  const auto check = [](const Case& c, int times) {
    INFO(c.name());
    DeviceProblem device(c, make_problem(c));
    const auto run = [&] {
      device.poison();
      device.forward();
      device.backward();
      return device.result().bytes;
    };
    const auto first = run();
    int different = 0;
    for (int i = 1; i < times; ++i) different += run() != first;
    CHECK(different == 0);
  };
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16}) {
    Case c{{4, 200, 2, 50}, dtype};
    check(c, 1000);
    for (const OtherRule& rule : kOtherRules) {
      c.write = rule.write, c.decay = rule.decay;
      check(c, 20);
    }
  }
}
