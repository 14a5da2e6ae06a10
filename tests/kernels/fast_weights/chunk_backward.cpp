#include <doctest/doctest.h>

#include <mutex>

#include "tests/kernels/fast_weights/delta_rule_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

void check_case(const Case& c) {
  INFO(c.name());
  const Problem problem = make_problem(c);
  const auto expected = delta_rule_reference_backward(problem.input, problem.output_gradient);
  const std::lock_guard lock(gpu_in_use);
  DeviceProblem device(c, problem);
  device.poison();
  device.forward();
  device.backward();
  const KernelResult actual = device.result();
  CHECK(relative_error(actual.q, expected.q_BTHD) <= gradient_tolerance(c));
  CHECK(relative_error(actual.k, expected.k_BTHD) <= gradient_tolerance(c));
  CHECK(relative_error(actual.v, expected.v_BTHD) <= gradient_tolerance(c));
  CHECK(relative_error(actual.beta, expected.beta_BTH) <= gradient_tolerance(c));
  if (c.decay != DecayKind::kNone && c.shape.time > 1)
    CHECK(relative_error(actual.log_decay, expected.log_decay_BTH) <= decay_tolerance(c));
  if (c.decay != DecayKind::kNone && c.shape.time == 1)  // the first step has nothing that could decay
    for (const double x : actual.log_decay) CHECK(x == 0);
}

}  // namespace

TEST_CASE("the chunked gradients equal the recurrence's at every shape") {
  if (skip_without_gpu()) return;
  const auto cases = all_cases();
  REQUIRE(cases.size() >= 200);
  check_each(cases, check_case);
}

TEST_CASE("the chunked gradients equal the recurrence's at the edges of the inputs") {
  if (skip_without_gpu()) return;
  check_each(edge_cases(), check_case);
}

TEST_CASE("the chunked gradients of every rule and decay equal the recurrence's at every shape") {
  if (skip_without_gpu()) return;
  check_each(rule_cases(), check_case);
}

TEST_CASE("the chunked gradients of every rule and decay equal the recurrence's at the edges of the inputs") {
  if (skip_without_gpu()) return;
  check_each(rule_edge_cases(), check_case);
}

// Few and small, so that compute-sanitizer can watch them: test_kernels --test-case="small shapes*"
TEST_CASE("small shapes of every kind, forward and backward") {
  if (skip_without_gpu()) return;
  unsigned seed = 500;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
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
