// What every fused form asks for; the forms' own headers say what else.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "base/support.h"

namespace engram::cuda {

// Whether this build has kernels for products in `dtype` on `device`, of whatever sizes.
Support supports_device(torch::ScalarType dtype, torch::Device device);

// Whether the parameters have the type that fused forms read, float32: `parameter` is one of them.
inline Support supports_parameters(const torch::Tensor& parameter) {
  if (parameter.scalar_type() == torch::kFloat32) return {};
  return Support::no(std::string("the parameters are in ") + torch::toString(parameter.scalar_type()));
}

// Where `value` is more than `most`: "width 1030 is more than 1024".
inline Support at_most(const std::string& what, std::int64_t value, std::int64_t most) {
  if (value <= most) return {};
  return Support::no(what + " " + std::to_string(value) + " is more than " + std::to_string(most));
}

}  // namespace engram::cuda
