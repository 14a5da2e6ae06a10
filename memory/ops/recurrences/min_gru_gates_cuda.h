// minGRU's gates on a GPU, by kernels/recurrences/min_gru. Where engram is built without CUDA nothing is supported.
#pragma once

#include <torch/torch.h>

#include "base/support.h"
#include "memory/ops/recurrences/min_gru_gates.h"

namespace engram::cuda {

// Whether the kernels take them: on one GPU, gate and candidate of one shape [..., D], none of it 0, in float32 or
// bfloat16, the bias [D] in float32.
Support supports_min_gru_gates(const torch::Tensor& gate, const torch::Tensor& candidate, const torch::Tensor& bias_D);

// min_gru_gates.h's. Gates and candidates that are parts of one matrix, as maps of one input are, are read where they
// stand, and so do their gradients. Throws c10::Error with the reason where the kernels do not take the tensors.
RecurrenceUpdate min_gru_gates(const torch::Tensor& gate, const torch::Tensor& candidate, const torch::Tensor& bias_D);

}  // namespace engram::cuda
