// Dropout on a GPU: what Dropout (dropout.h) defines, as one kernel.
#pragma once

#include <torch/torch.h>

#include "base/dropout.h"

namespace engram::cuda {

// dropout(x [..., C]) with the draws of `key`, whose clock is seed_tick, int64 [2] on x's device. The result's rows
// begin at multiples of 16 channels, as those of the fused layers do.
torch::Tensor dropout(const torch::Tensor& x, const torch::Tensor& seed_tick, const DropoutKey& key);

}  // namespace engram::cuda
