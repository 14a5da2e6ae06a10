// The roads of a backbone: what computes it in learning and in acting, and why not what would be faster.
#pragma once

#include <torch/torch.h>

#include "base/support.h"
#include "memory/core/sequence_model.h"

namespace engram {

// The road of a backbone with SequenceModel::supports_blocks().
inline constexpr const char* kFusedBlocks = "fused blocks, mixers by LibTorch";

// Of forward_fresh() and of step(), with products in `dtype` on `device`, the current one.
Road learning_road(const SequenceModel& backbone, bool use_kernels, torch::Device device, torch::ScalarType dtype);
Road step_road(const SequenceModel& backbone, torch::Device device, torch::ScalarType dtype);

}  // namespace engram
