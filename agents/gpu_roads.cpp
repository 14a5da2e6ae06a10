// The roads that a GPU adds.
#include "agents/device_policy.h"
#include "agents/roads.h"
#include "agents/trained_agent.h"
#include "kernels/sac_loss/sac_loss.h"
#include "nn/fused_support.h"

namespace engram {

Support loss_kernel(std::int64_t num_actions, torch::Device device) {
  if (Support own = fused::device_support(torch::kFloat32, device); !own) return own;
  return fused::at_most("the number of actions", num_actions, kMaxSacActions);
}

Road acting_road(const Config& config, torch::Device device) {
  const auto libtorch = [](const std::string& reason) {
    return Road{"acting", "LibTorch in float32, in environments on the CPU", reason};
  };
  const torch::ScalarType dtype = compute_dtype(config, device);
  if (const Support own = fused::device_support(dtype, device); !own) return libtorch(own.reason());
  const bool narrow = dtype == torch::kBFloat16;
  if (const auto reason = DevicePolicy::unsupported(config.network, config.memory, config.task.info(),
                                                    narrow ? Dtype::kBfloat16 : Dtype::kFloat32))
    return libtorch(*reason);
  return {"acting", std::string("one kernel in ") + (narrow ? "bfloat16" : "float32"), "", /*fast=*/true};
}

}  // namespace engram
