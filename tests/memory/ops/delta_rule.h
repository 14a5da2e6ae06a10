// The delta rule alone, of the operations of fast weights.
#pragma once

#include <torch/torch.h>

#include "memory/ops/fast_weight_ops.h"

namespace engram {

inline FastWeightResult delta_rule(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                                   const torch::Tensor& beta, const torch::Tensor& state_BHKV,
                                   const torch::Tensor& lengths_B) {
  return fast_weights({.delta = true}, {query, key, value, beta, {}}, {state_BHKV, {}, {}}, lengths_B);
}
inline torch::Tensor delta_rule_step(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                                     const torch::Tensor& beta, const torch::Tensor& state_BHKV) {
  return fast_weight_step({.delta = true}, {query, key, value, beta, {}}, {state_BHKV, {}, {}});
}

}  // namespace engram
