#include "nn/fused/support.h"

#include <string>

namespace engram::cuda {

Support supports_device(torch::ScalarType dtype, torch::Device device) {
  if (!device.is_cuda()) return Support::no("the kernels are for GPUs");
  if (dtype != torch::kFloat32 && dtype != torch::kBFloat16)
    return Support::no(std::string("the kernels compute in float32 and bfloat16, not in ") + torch::toString(dtype));
  return {};
}

}  // namespace engram::cuda
