// One step of attention over a ring on a GPU, as one kernel (kernels/attention): what WindowStepPlan (ops.h) defines,
// without dropout.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "base/support.h"

namespace engram::fused {

// key_width: of queries and keys.
Support attention_step_support(std::int64_t key_width, std::int64_t value_width, torch::ScalarType dtype,
                               torch::Device device);

// Writes key and value into the ring's slot of each row's position and returns o [B, H, V]. The ring is contiguous, in
// a type of its own.
torch::Tensor attention_step(const torch::Tensor& query_BHK, const torch::Tensor& key_BHK,
                             const torch::Tensor& value_BHV, const torch::Tensor& position_B,
                             const torch::Tensor& ring_key_BSHK, const torch::Tensor& ring_value_BSHV);

}  // namespace engram::fused
