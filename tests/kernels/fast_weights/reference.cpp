#include "kernels/fast_weights/delta_rule/reference.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/common/check_slopes.h"
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

TEST_CASE("the reference's gradient is the slope of its output") {
  Case c{{3, 7, 2, 4}, Dtype::kFloat32};
  c.states = true, c.seed = 5;
  SUBCASE("delta rule") {}
  SUBCASE("delta rule with decay") { c.decay = DecayKind::kMild; }
  SUBCASE("sum rule") { c.write = FastWeightWrite::kSum; }
  SUBCASE("sum rule with decay") { c.write = FastWeightWrite::kSum, c.decay = DecayKind::kMild; }
  Problem problem = make_problem(c);
  problem.input.length_B = {7, 0, 4};
  DeltaRuleReferenceInput& in = problem.input;
  const DeltaRuleReferenceOutput& d = problem.output_gradient;
  const auto gradient = delta_rule_reference_backward(in, d);
  check_slopes({in.q_BTHD, in.k_BTHD, in.v_BTHD, in.beta_BTH, in.initial_state_BHKV, in.log_decay_BTH},
               {gradient.q_BTHD, gradient.k_BTHD, gradient.v_BTHD, gradient.beta_BTH, gradient.initial_state_BHKV,
                gradient.log_decay_BTH},
               [&] {
                 const auto out = delta_rule_reference(in);
                 return inner_product(out.output_BTHD, d.output_BTHD) +
                        inner_product(out.final_state_BHKV, d.final_state_BHKV);
               });
}
