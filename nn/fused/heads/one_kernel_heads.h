// Fused heads all of whose layers are in one kernel: kernels/heads/mlp_heads, and kernels/heads/narrow_heads for few
// hidden units.
#pragma once

#include <vector>

#include "nn/fused/heads/heads_pass.h"

namespace engram::cuda {

// Null where supports_one_kernel_heads() says no.
c10::intrusive_ptr<HeadsPass> one_kernel_heads(const Tensor& x_MP, const std::vector<HeadWeights>& learning,
                                               const std::vector<HeadWeights>& targets, bool of_leaves);

}  // namespace engram::cuda
