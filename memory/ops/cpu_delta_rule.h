// delta_rule() on a CPU in float32 (nn/cpu/kernels.h): step after step with the state in a processor's first cache,
// which is less arithmetic than whole chunks, and no copies of them.
#pragma once

#include "memory/ops/ops.h"

namespace engram::cpu {

bool supports_delta_rule(const torch::Tensor& query_BTHK, const torch::Tensor& key_BTHK,
                         const torch::Tensor& value_BTHV, const torch::Tensor& beta_BTH,
                         const torch::Tensor& state_BHKV);

// beta_BTH: 0 behind the rows' lengths. What is supported.
DeltaRuleResult delta_rule(const torch::Tensor& query_BTHK, const torch::Tensor& key_BTHK,
                           const torch::Tensor& value_BTHV, const torch::Tensor& beta_BTH,
                           const torch::Tensor& state_BHKV);

}  // namespace engram::cpu
