#include "agents/act/roads.h"

#include "agents/act/make_policy.h"
#include "agents/act/policy.h"
#include "agents/learn/algorithm.h"
#include "agents/run/trained/trained_agent.h"
#include "base/error.h"

namespace engram {

std::vector<Road> roads_of(const Config& config, const AgentNetwork& network, torch::Device device) {
  std::vector<Road> roads = network.roads(device);
  roads.push_back(config.learner.make_algorithm(network)->loss_road(network, device));
  roads.push_back(acting_road(config, network, device));
  return roads;
}

std::string road_text(const Road& road) {
  return road.part + ": " + road.road + (road.reason.empty() ? "" : " (" + road.reason + ")");
}

Road acting_road(const Config& config, const AgentNetwork& network, torch::Device device) {
  const torch::ScalarType dtype = compute_dtype(config, device);
  const std::string type = dtype == torch::kBFloat16 ? "bfloat16" : "float32";
  const Support kernel = supports_one_kernel(config, device);
  if (kernel) return {"acting", "one kernel in " + type, "", /*fast=*/true};
  if (device.is_cpu())
    return {"acting", network.uses_kernels() ? "LibTorch and own loops in float32" : "LibTorch in float32",
            kernel.reason()};
  std::string reason = kernel.reason();
  if (const Support step = network.backbone().supports_step(dtype, device); network.uses_kernels() && !step)
    reason += "; in a graph " + step.reason();
  return {"acting", in_a_graph(network, dtype, device) + ", in " + type, reason};
}

void check_kernels(const Config& config, const std::vector<Road>& roads) {
  if (config.run.kernels != Kernels::kRequire) return;
  for (const Road& road : roads)
    if (!road.fast)
      throw UserError("run.kernels require: " + road.part + " would be computed by " + road.road + ", because " +
                      road.reason + "; change that or take run.kernels auto");
}

}  // namespace engram
