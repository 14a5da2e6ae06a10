// SwiGLU on a GPU as a residual branch (residual_stack.h), with a backward pass of its own. It computes what SwiGlu
// (layers.h) defines. Rows [M, P] and types: as in fused_rows.h.
#pragma once

#include <torch/torch.h>

#include <memory>

#include "nn/residual_stack.h"

namespace engram::fused {

struct SwiGluWeights {
  torch::Tensor gate_ID, up_ID;
  torch::Tensor down_DI;
};

// Wdown (silu(Wgate n) * Wup n) for rows of `dtype`
std::unique_ptr<Branch> swiglu_branch(const SwiGluWeights& weights, torch::ScalarType dtype);

}  // namespace engram::fused
