// A residual branch (residual_blocks.h) that LibTorch's operations define: what the forward pass records is
// differentiated in the stack's backward pass.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "nn/fused/residual_blocks.h"

namespace engram::cuda {

// operation: x [..., D] of `shape` -> [..., D] of any floating type, with products in x's type (nn/device/autocast.h),
// without a wait for the device. Called once. parameters: those that it reads; of them the ones that require gradients
// get some.
std::unique_ptr<Branch> autograd_branch(std::vector<torch::Tensor> parameters, std::vector<std::int64_t> shape,
                                        std::function<torch::Tensor(const torch::Tensor&)> operation);

// The same without gradients, of rows x [M, D] in the type of the products; its result may be in another.
std::unique_ptr<ForwardBranch> operations_branch(std::int64_t width,
                                                 std::function<torch::Tensor(const torch::Tensor&)> operation);

}  // namespace engram::cuda
