// Sequences cut into segments (kernels/fast_weights/delta_rule/README.md, "In segments") against the recurrence, where
// the shape alone would not cut them.
#include <doctest/doctest.h>

#include <mutex>
#include <vector>

#include "tests/kernels/fast_weights/delta_rule_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

void check_case(const Case& c) {
  const Problem problem = make_problem(c);
  const auto expected = delta_rule_reference(problem.input);
  const auto gradient = delta_rule_reference_backward(problem.input, problem.output_gradient);
  const std::lock_guard lock(gpu_in_use);
  check_delta_rule(c, "segments", DeviceProblem(c, problem).forward_and_backward(), expected, gradient);
}

std::vector<OtherRule> all_rules() {
  std::vector<OtherRule> rules{{FastWeightWrite::kDelta, DecayKind::kNone}};
  rules.insert(rules.end(), std::begin(kOtherRules), std::end(kOtherRules));
  return rules;
}

}  // namespace

// Few and small, to be run first, and under compute-sanitizer.
TEST_CASE("small shapes in segments, forward and backward") {
  if (skip_without_gpu()) return;
  unsigned seed = 9000;
  for (const Dtype dtype : kDtypes)
    for (const int width : {16, 50, 56, 100, 128})
      for (const int segments : {2, 3, 6}) {
        Case c{{3, dtype == Dtype::kBfloat16 ? 330 : 170, 2, width, segments}, dtype};
        c.gap = width % 4;
        for (const OtherRule& rule : all_rules()) {
          c.write = rule.write, c.decay = rule.decay, c.seed = seed++;
          check_case(c);
        }
      }
}

TEST_CASE("sequences in segments equal the recurrence's at the edges of the inputs") {
  if (skip_without_gpu()) return;
  std::vector<Case> cases;
  for (const OtherRule& rule : all_rules())
    for (Case c : edge_cases()) {
      if (c.shape.width == 50 || (rule.write == FastWeightWrite::kSum && c.value_scale != 1)) continue;
      c.shape.segments = 2 + 2 * (c.seed % 2);
      c.write = rule.write, c.decay = rule.decay, c.seed += 3000;
      cases.push_back(c);
    }
  check_each(cases, check_case);
}

TEST_CASE("few long sequences, which are cut by themselves, equal the recurrence's") {
  if (skip_without_gpu()) return;
  std::vector<Case> cases;
  unsigned seed = 9900;
  for (const OtherRule& rule : all_rules())
    for (const int width : {56, 64, 100, 128})
      for (const int time : {2048, 4100, 8192}) {
        Case c{{1 + static_cast<int>(seed % 2), time, 2, width}};
        c.write = rule.write, c.decay = rule.decay, c.ragged = seed % 3 != 0, c.seed = seed++;
        REQUIRE(delta_rule_segments(c.shape, c.dtype) > 1);
        cases.push_back(c);
      }
  check_each(cases, check_case);
}

TEST_CASE("a sequence in segments gives the same bits 200 times") {
  if (skip_without_gpu()) return;
  for (const int width : {56, 128}) {
    Case c{{1, 8192, 8, width}};
    INFO(c.name());
    DeviceProblem device(c, make_problem(c));
    CHECK(different_runs([&] { return device.forward_and_backward().bytes; }, 200) == 0);
  }
}
