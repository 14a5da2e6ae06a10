#include "kernels/fast_weights/delta_rule/reference.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "tests/kernels/fast_weights/delta_rule_case.h"

using namespace engram;
using namespace engram::testing;

TEST_CASE("a written pair is read back, overwritten, and forgotten as beta says") {
  DeltaRuleReferenceInput in{{1, 3, 1, 2}, 1.0, {1, 0, 1, 0, 1, 0}, {1, 0, 1, 0, 1, 0}, {3, 4, 5, 6, 7, 8},
                             {1, 1, 0},    {3}, {0, 0, 0, 0}};
  const auto out = delta_rule_reference(in);
  CHECK(out.output_BTHD == std::vector<double>{3, 4, 5, 6, 5, 6});
  CHECK(out.final_state_BHKV == std::vector<double>{5, 6, 0, 0});
}

TEST_CASE("what was written decays before a step writes, and the sum rule corrects nothing") {
  const double half = std::log(0.5);
  DeltaRuleReferenceInput in{{1, 3, 1, 2}, 1.0, {1, 0, 1, 0, 1, 0}, {1, 0, 1, 0, 0, 1}, {4, 8, 2, 4, 7, 8},
                             {1, 0.5, 0},  {3}, {0, 0, 0, 0}};
  in.log_decay_BTH = {half, half, half};
  CHECK(delta_rule_reference(in).output_BTHD == std::vector<double>{4, 8, 2, 4, 1, 2});
  in.write = FastWeightWrite::kSum;
  CHECK(delta_rule_reference(in).output_BTHD == std::vector<double>{4, 8, 3, 6, 1.5, 3});
}

// Central differences of the reference's own forward pass: exact to about 1e-9 in double with this step.
TEST_CASE("the reference's gradient is the slope of its output") {
  Case c{{3, 7, 2, 4}, Dtype::kFloat32};
  c.states = true, c.seed = 5;
  SUBCASE("delta rule") {}
  SUBCASE("delta rule with decay") { c.decay = DecayKind::kMild; }
  SUBCASE("sum rule") { c.write = FastWeightWrite::kSum; }
  SUBCASE("sum rule with decay") { c.write = FastWeightWrite::kSum, c.decay = DecayKind::kMild; }
  Problem problem = make_problem(c);
  problem.input.length_B = {7, 0, 4};
  const auto loss = [&] {
    const auto out = delta_rule_reference(problem.input);
    double sum = 0;
    for (std::size_t i = 0; i < out.output_BTHD.size(); ++i)
      sum += out.output_BTHD[i] * problem.output_gradient.output_BTHD[i];
    for (std::size_t i = 0; i < out.final_state_BHKV.size(); ++i)
      sum += out.final_state_BHKV[i] * problem.output_gradient.final_state_BHKV[i];
    return sum;
  };
  const auto gradient = delta_rule_reference_backward(problem.input, problem.output_gradient);
  const auto check = [&](std::vector<double>& x, const std::vector<double>& slope) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double kept = x[i], step = 1e-5;
      x[i] = kept + step;
      const double above = loss();
      x[i] = kept - step;
      const double below = loss();
      x[i] = kept;
      CHECK(slope[i] == doctest::Approx((above - below) / (2 * step)).epsilon(1e-6));
    }
  };
  check(problem.input.q_BTHD, gradient.q_BTHD);
  check(problem.input.k_BTHD, gradient.k_BTHD);
  check(problem.input.v_BTHD, gradient.v_BTHD);
  check(problem.input.beta_BTH, gradient.beta_BTH);
  check(problem.input.initial_state_BHKV, gradient.initial_state_BHKV);
  check(problem.input.log_decay_BTH, gradient.log_decay_BTH);
}
