// What a minGRU (Feng et al. 2024, arXiv:2410.01201, section 3.1) makes of its two maps.
#pragma once

#include <torch/torch.h>

#include "memory/ops/recurrences/linear_recurrence.h"

namespace engram {

// keep = 1 - z, write = z candidate, with z = sigmoid(gate + bias): gate, candidate [..., D], bias [D] -> both [..., D]
// in the bias's type. Differentiable, once where kernels/recurrences/min_gru compute it on a GPU; else, and under
// PlainOperations, the next one does.
RecurrenceUpdate min_gru_gates(const torch::Tensor& gate, const torch::Tensor& candidate, const torch::Tensor& bias_D);

// The same by LibTorch's operations.
RecurrenceUpdate plain_min_gru_gates(const torch::Tensor& gate, const torch::Tensor& candidate,
                                     const torch::Tensor& bias_D);

}  // namespace engram
