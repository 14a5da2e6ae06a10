// The roads of an agent: what computes each part of it on a device, and why not what would be faster.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "agents/act/network.h"
#include "agents/run/config/config.h"
#include "base/support.h"

namespace engram {

// Of backbone, heads, encoder, loss and acting, as training on `device`, the current one, takes them. `network` is the
// config's (make_network()).
std::vector<Road> roads_of(const Config& config, const AgentNetwork& network, torch::Device device);

Road acting_road(const Config& config, const AgentNetwork& network, torch::Device device);

// "backbone: LibTorch in bfloat16 (it has no kernels of its own)"
std::string road_text(const Road& road);

// With run.kernels require, throws UserError for the first part that no kernel computes.
void check_kernels(const Config& config, const std::vector<Road>& roads);

}  // namespace engram
