// SwiGLU on a GPU as a residual branch (residual_blocks.h), with a backward pass of its own. It computes what SwiGlu
// (layers.h) defines. Rows [M, P] and types: as in nn/fused/rows.h.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "base/support.h"
#include "nn/fused/residual_blocks.h"

namespace engram::cuda {

// Whether the branch of D channels and I hidden units is one kernel that keeps these on chip, by sizes and type; and on
// this device, the current one, with this build too. Else it is products with the hidden units in memory between them.
Support supports_one_kernel_swiglu_sizes(std::int64_t width, std::int64_t inner, torch::ScalarType dtype);
Support supports_one_kernel_swiglu(std::int64_t width, std::int64_t inner, torch::ScalarType dtype,
                                   torch::Device device);

struct SwiGluWeights {
  torch::Tensor gate_ID, up_ID;
  torch::Tensor down_DI;
};

// Wdown (silu(Wgate n) * Wup n) for rows of `dtype`
std::unique_ptr<Branch> swiglu_branch(const SwiGluWeights& weights, torch::ScalarType dtype);

}  // namespace engram::cuda
