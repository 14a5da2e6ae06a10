// The delta rule and the sum rule in double precision on the CPU, as plain recurrences: what the kernels are tested
// against. Formula and dimensions as in delta_rule.h; every tensor contiguous.
#pragma once

#include <vector>

#include "kernels/fast_weights/delta_rule/delta_rule.h"

namespace engram {

struct DeltaRuleReferenceInput {
  DeltaRuleShape shape;
  double scale;
  std::vector<double> q_BTHD, k_BTHD, v_BTHD, beta_BTH;
  std::vector<int> length_B;
  std::vector<double> initial_state_BHKV;
  FastWeightWrite write = FastWeightWrite::kDelta;
  std::vector<double> log_decay_BTH = {};  // empty: no decay
};

struct DeltaRuleReferenceOutput {
  std::vector<double> output_BTHD, final_state_BHKV;
};

struct DeltaRuleReferenceGradient {
  std::vector<double> q_BTHD, k_BTHD, v_BTHD, beta_BTH, initial_state_BHKV, log_decay_BTH;
};

DeltaRuleReferenceOutput delta_rule_reference(const DeltaRuleReferenceInput& input);

// The gradient of sum(output * output_gradient.output) + sum(final_state * output_gradient.final_state).
DeltaRuleReferenceGradient delta_rule_reference_backward(const DeltaRuleReferenceInput& input,
                                                         const DeltaRuleReferenceOutput& output_gradient);

}  // namespace engram
