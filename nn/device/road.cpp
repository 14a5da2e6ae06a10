#include "nn/device/road.h"

namespace engram {

std::string type_name(torch::ScalarType dtype) {
  switch (dtype) {
    case torch::kFloat64:
      return "float64";
    case torch::kBFloat16:
      return "bfloat16";
    case torch::kFloat16:
      return "float16";
    default:
      return "float32";
  }
}

Road road_of(const std::string& part, const Support& kernels, const Support& fastest, bool use_kernels,
             torch::Device device, torch::ScalarType dtype) {
  const std::string in = " in " + type_name(dtype);
  if (!use_kernels) return {part, "LibTorch" + in, "kernels are off"};
  if (!kernels) return {part, (device.is_cpu() ? "LibTorch and own loops" : "LibTorch") + in, kernels.reason()};
  return {part, "fused kernels" + in, fastest.reason(), /*fast=*/true};
}

}  // namespace engram
