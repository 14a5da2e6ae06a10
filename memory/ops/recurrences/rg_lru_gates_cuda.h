// RG-LRU's gates on a GPU, by kernels/recurrences/rg_lru. Where engram is built without CUDA nothing is supported.
#pragma once

#include "base/support.h"
#include "memory/ops/recurrences/rg_lru_gates.h"

namespace engram::cuda {

// Whether the kernels take them: on one GPU, logits of one type, float32 or bfloat16, u and decay in float32, no
// dimension of 0.
Support supports_rg_lru_gates(const RgLruInput& input);

// rg_lru_gates.h's. Logits that are parts of one matrix, as maps of one input are, are read where they stand, and so do
// their gradients. Throws c10::Error with the reason where the kernels do not take the tensors.
RecurrenceUpdate rg_lru_gates(const RgLruInput& input);

}  // namespace engram::cuda
