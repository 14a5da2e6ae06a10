// The road of a part of a network, from what its kernels say of themselves.
#pragma once

#include <torch/torch.h>

#include <string>

#include "base/support.h"

namespace engram {

// "float32", "bfloat16", as in PyTorch.
std::string type_name(torch::ScalarType dtype);

// Of a part that has kernels of its own, or has not, with products in `dtype` on `device`; `fastest` speaks of their
// form.
Road road_of(const std::string& part, const Support& kernels, const Support& fastest, bool use_kernels,
             torch::Device device, torch::ScalarType dtype);

}  // namespace engram
