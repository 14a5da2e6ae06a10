// A step of delta_rule.h whose vectors are slices of rows, and with a sum of keys beside the state.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/fast_weights/delta_rule/delta_rule.h"

namespace engram {

// The sum of keys z_t = a_t z_{t-1} + beta_t k_t is what divides what the sum rule reads: scale * z_t . q_t stands
// behind the output's D channels. What follows there is written as zero.
struct DeltaRuleStepRows {
  std::int64_t row_stride, head_stride;  // of q, k and v, in elements; at least D
  int output_width;                      // P: at least D, and more than D with a sum of keys; output is [N, H, P]
  float* key_sum_NHK;                    // of kSum, updated in place; null: none
};
// All else as delta_rule_step() without rows takes it.
void delta_rule_step(const DeltaRuleStep& step, const DeltaRuleStepRows& rows, cudaStream_t stream);

}  // namespace engram
