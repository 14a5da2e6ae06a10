#include "agents/roads.h"

#include "base/error.h"

namespace engram {

std::vector<Road> roads_of(const Config& config, const AgentNetwork& network, torch::Device device) {
  std::vector<Road> roads = network.roads(device);
  roads.push_back(loss_road(config, device));
  roads.push_back(acting_road(config, device));
  return roads;
}

std::string road_text(const Road& road) {
  return road.part + ": " + road.road + (road.reason.empty() ? "" : " (" + road.reason + ")");
}

Road loss_road(const Config& config, torch::Device device) {
  if (const Support kernel = loss_kernel(config.task.info().num_actions(), device); !kernel)
    return {"loss", "LibTorch in float32", kernel.reason()};
  return {"loss", "one kernel in float32", "", /*fast=*/true};
}

void check_kernels(const Config& config, const std::vector<Road>& roads) {
  if (config.run.kernels != Kernels::kRequire) return;
  for (const Road& road : roads)
    if (!road.fast)
      throw UserError("run.kernels require: " + road.part + " would be computed by " + road.road + ", because " +
                      road.reason + "; change that or take run.kernels auto");
}

}  // namespace engram
