// The steps of ops.h as one kernel each. Where engram is built without CUDA nothing is supported.
#pragma once

#include <torch/torch.h>

#include "base/dropout.h"
#include "base/support.h"
#include "memory/ops.h"

namespace engram::cuda {

// Whether kernels/delta_rule/delta_rule.h takes these tensors, and the step of ops.h by it.
Support supports_delta_rule_step(const torch::Tensor& query_BHK, const torch::Tensor& key_BHK,
                                 const torch::Tensor& value_BHV, const torch::Tensor& beta_BH,
                                 const torch::Tensor& state_BHKV);
torch::Tensor delta_rule_step(const torch::Tensor& query_BHK, const torch::Tensor& key_BHK,
                              const torch::Tensor& value_BHV, const torch::Tensor& beta_BH,
                              const torch::Tensor& state_BHKV);

// Whether kernels/attention/attention.h takes these tensors, and WindowStepPlan::attend by it. All slots of the ring
// count: a slot that no step has filled has no weight, but an index of its own in what is dropped.
Support supports_attention_step(const torch::Tensor& query_BHK, const torch::Tensor& key_BHK,
                                const torch::Tensor& value_BHV, const KeyValueRing& ring);
torch::Tensor attention_step(const torch::Tensor& query_BHK, const torch::Tensor& key_BHK,
                             const torch::Tensor& value_BHV, const torch::Tensor& position_B, const KeyValueRing& ring,
                             const DropoutKey& weight_dropout);

}  // namespace engram::cuda
