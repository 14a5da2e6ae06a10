// What the fused losses of all learners ask for.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "nn/fused/support.h"

namespace engram {

// Whether a loss of at most `most` actions takes heads of the type `outputs` on this device.
inline Support supports_fused_loss(torch::Device device, torch::ScalarType outputs, std::int64_t num_actions,
                                   std::int64_t most) {
  if (!device.is_cuda()) return Support::no("the agent learns on the " + device.str());
  if (outputs != torch::kFloat32)
    return Support::no(std::string("the heads give ") + c10::toString(outputs) + ", not Float");
  return cuda::at_most("the number of actions", num_actions, most);
}

}  // namespace engram
