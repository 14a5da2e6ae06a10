// What an RG-LRU (De et al. 2024, arXiv:2402.19427, equations 1 to 4) makes of its gates and of what it is given.
#pragma once

#include <torch/torch.h>

#include "memory/ops/recurrences/linear_recurrence.h"

namespace engram {

constexpr double kRgLruExponent = 8;  // c of equation 3

// The logits of recurrence and input gate [..., D]; u, what is written, [..., D] and decay [D] of one type; is_first
// [..., 1], bool: rows that are the first of an episode, undefined where none counts as that.
struct RgLruInput {
  torch::Tensor recurrence_logit, input_logit, u, decay_D, is_first;
};

// keep = a, write = s sigmoid(input_logit) u with log a = 8 log(sigmoid(decay)) sigmoid(recurrence_logit) and
// s = sqrt(1 - a^2), 1 in a first row and at least 1e-6: both [..., D] in u's type. Differentiable, once where
// kernels/recurrences/rg_lru compute it on a GPU; else, and under PlainOperations, the next one does.
RecurrenceUpdate rg_lru_gates(const RgLruInput& input);

// The same by LibTorch's operations.
RecurrenceUpdate plain_rg_lru_gates(const RgLruInput& input);

}  // namespace engram
