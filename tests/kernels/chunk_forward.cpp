#include <doctest/doctest.h>

#include "tests/kernels/delta_rule_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

// bfloat16 keeps 8 bits: rounding the output alone gives 0.0011, and a handful of rounded intermediates twice to
// three times that. float: 24 bits, a few hundred roundings.
double tolerance(Dtype dtype) { return dtype == Dtype::kFloat32 ? 1e-5 : 0.005; }

void check_case(const Case& c) {
  INFO(c.name());
  const Problem problem = make_problem(c);
  const auto expected = delta_rule_reference(problem.input);
  const std::lock_guard lock(gpu_in_use);
  DeviceProblem device(c, problem);
  device.poison();
  device.forward();
  CHECK(relative_error(device.result().output, expected.output_BTHD) <= tolerance(c.dtype));
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
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16}) {
    const Case c{{4, 200, 2, 50}, dtype};
    DeviceProblem device(c, make_problem(c));
    const auto run = [&] {
      device.poison();
      device.forward();
      device.backward();
      return device.result().bytes;
    };
    const auto first = run();
    int different = 0;
    for (int i = 1; i < 1000; ++i) different += run() != first;
    CHECK(different == 0);
  }
}
