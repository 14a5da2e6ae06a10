// The delta rule of fast_weights() (memory/ops/fast_weight_ops.h) on a CPU in float32 (nn/cpu/kernels.h): step after
// step with the state in a processor's first cache, which is less arithmetic than whole chunks, and no copies of them.
#pragma once

#include <torch/torch.h>

#include <utility>

namespace engram::cpu {

bool supports_delta_rule(const torch::Tensor& query_BTHK, const torch::Tensor& key_BTHK,
                         const torch::Tensor& value_BTHV, const torch::Tensor& beta_BTH,
                         const torch::Tensor& state_BHKV);

// The output [B, T, H, V] and the state after the last step. beta_BTH: 0 behind the rows' lengths. What is supported.
std::pair<torch::Tensor, torch::Tensor> delta_rule(const torch::Tensor& query_BTHK, const torch::Tensor& key_BTHK,
                                                   const torch::Tensor& value_BTHV, const torch::Tensor& beta_BTH,
                                                   const torch::Tensor& state_BHKV);

}  // namespace engram::cpu
