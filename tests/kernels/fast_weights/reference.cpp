#include "kernels/fast_weights/delta_rule/reference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>
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

namespace {

// The steps first .. end - 1 of all rows of a tensor.
Numbers steps_of(const Numbers& x, const DeltaRuleShape& shape, int first, int end) {
  const std::size_t step = x.size() / shape.batch / shape.time;
  Numbers kept;
  for (int row = 0; row < shape.batch; ++row) {
    const std::size_t begin = static_cast<std::size_t>(row) * shape.time * step;
    kept.insert(kept.end(), x.begin() + begin + first * step, x.begin() + begin + end * step);
  }
  return kept;
}

// The same of a problem, with these first states and gradients of last states.
Problem steps_of(const Problem& whole, int first, int end, Numbers state_BHKV, Numbers d_state_BHKV) {
  Problem part = whole;
  DeltaRuleReferenceInput& in = part.input;
  in.shape.time = end - first;
  for (Numbers* x :
       {&in.q_BTHD, &in.k_BTHD, &in.v_BTHD, &in.beta_BTH, &in.log_decay_BTH, &part.output_gradient.output_BTHD})
    *x = steps_of(*x, whole.input.shape, first, end);
  for (int& length : in.length_B) length = std::clamp(length - first, 0, end - first);
  in.initial_state_BHKV = std::move(state_BHKV);
  part.output_gradient.final_state_BHKV = std::move(d_state_BHKV);
  return part;
}

// sum += M x or, transposed, M^T x of every pair's matrices.
void add_products(Numbers& sum, const Numbers& matrix_BHKK, const Numbers& x_BHKV, int width, bool transposed) {
  for (std::size_t pair = 0; pair < sum.size(); pair += width * width)
    for (int i = 0; i < width; ++i)
      for (int k = 0; k < width; ++k)
        for (int j = 0; j < width; ++j)
          sum[pair + i * width + j] +=
              matrix_BHKK[pair + (transposed ? k * width + i : i * width + k)] * x_BHKV[pair + k * width + j];
}

}  // namespace

// What the kernels build upon that cut a sequence (kernels/fast_weights/delta_rule/README.md, "In segments"): walks
// from zero and the identity's walks give every segment's first state and, backward, the gradient of its last.
TEST_CASE("segments of a sequence, joined by their transitions, are the sequence, forward and backward") {
  constexpr int kWidth = 6, kTime = 41, kStarts[] = {0, 13, 14, 30, kTime};
  constexpr std::size_t kSegments = std::size(kStarts) - 1;
  unsigned seed = 60;
  for (const FastWeightWrite write : {FastWeightWrite::kDelta, FastWeightWrite::kSum})
    for (const DecayKind decay : {DecayKind::kNone, DecayKind::kMild, DecayKind::kMixed, DecayKind::kForgetful})
      for (const Keys keys : {Keys::kRandom, Keys::kDuplicate}) {
        Case c{{3, kTime, 2, kWidth}, Dtype::kFloat32};
        c.states = true, c.write = write, c.decay = decay, c.keys = keys, c.betas = Betas::kZeroOneTwo, c.seed = seed++;
        INFO(c.name());
        const Problem whole = make_problem(c);
        const Numbers& first = whole.input.initial_state_BHKV;
        const Numbers zero(first.size());
        Numbers identity = zero;
        for (std::size_t i = 0; i < identity.size(); i += kWidth * kWidth)
          for (int k = 0; k < kWidth; ++k) identity[i + k * (kWidth + 1)] = 1;

        std::vector<Numbers> states{first}, transitions, d_states(kSegments + 1);
        for (std::size_t s = 0; s < kSegments; ++s) {
          Problem walk = steps_of(whole, kStarts[s], kStarts[s + 1], zero, zero);
          states.push_back(delta_rule_reference(walk.input).final_state_BHKV);
          walk.input.initial_state_BHKV = identity;
          std::fill(walk.input.v_BTHD.begin(), walk.input.v_BTHD.end(), 0.0);
          transitions.push_back(delta_rule_reference(walk.input).final_state_BHKV);
          add_products(states[s + 1], transitions[s], states[s], kWidth, false);
        }
        d_states[kSegments] = whole.output_gradient.final_state_BHKV;
        for (std::size_t s = kSegments; s-- > 0;) {
          const Problem walk = steps_of(whole, kStarts[s], kStarts[s + 1], zero, zero);
          d_states[s] = delta_rule_reference_backward(walk.input, walk.output_gradient).initial_state_BHKV;
          add_products(d_states[s], transitions[s], d_states[s + 1], kWidth, true);
        }

        const auto expected = delta_rule_reference(whole.input);
        const auto gradient = delta_rule_reference_backward(whole.input, whole.output_gradient);
        CHECK(relative_error(states[kSegments], expected.final_state_BHKV) <= 1e-12);
        CHECK(relative_error(d_states[0], gradient.initial_state_BHKV) <= 1e-12);
        for (std::size_t s = 0; s < kSegments; ++s) {
          const Problem walk = steps_of(whole, kStarts[s], kStarts[s + 1], states[s], d_states[s + 1]);
          const auto actual = delta_rule_reference(walk.input);
          const auto d_actual = delta_rule_reference_backward(walk.input, walk.output_gradient);
          const auto same = [&](const Numbers& own, const Numbers& all) {
            CHECK(relative_error(own, steps_of(all, c.shape, kStarts[s], kStarts[s + 1]), 1e-3) <= 1e-12);
          };
          same(actual.output_BTHD, expected.output_BTHD);
          same(d_actual.q_BTHD, gradient.q_BTHD);
          same(d_actual.k_BTHD, gradient.k_BTHD);
          same(d_actual.v_BTHD, gradient.v_BTHD);
          same(d_actual.beta_BTH, gradient.beta_BTH);
          same(d_actual.log_decay_BTH, gradient.log_decay_BTH);
        }
      }
}
