#include "agents/act/roads.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "agents/run/trained/trained_agent.h"
#include "base/error.h"

using namespace engram;

namespace {

std::vector<Road> roads_on_cpu(const Config& config) {
  return roads_of(config, *make_network(config, config.task.info(), torch::kCPU), torch::kCPU);
}

}  // namespace

TEST_CASE("every part of an agent has a road, and on the CPU it has no kernels, with a reason") {
  for (const std::string& backbone : backbone_names()) {
    CAPTURE(backbone);
    std::vector<std::string> parts;
    for (const Road& road : roads_on_cpu(Config::from_settings({{"memory.name", backbone}}))) {
      parts.push_back(road.part);
      CHECK(road.road == (road.part == "loss" ? "own loops in float32" : "LibTorch and own loops in float32"));
      CHECK_FALSE(road.reason.empty());
      CHECK_FALSE(road.fast);
      CHECK(road_text(road) == road.part + ": " + road.road + " (" + road.reason + ")");
    }
    CHECK((parts == std::vector<std::string>{"backbone", "heads", "encoder", "loss", "acting"}));
  }
}

TEST_CASE("run.kernels require refuses the first part without kernels, and auto and off refuse nothing") {
  Config config = Config::from_settings({{"memory.name", "lstm"}, {"run.kernels", "require"}});
  const std::vector<Road> roads = {{"heads", "fused kernels in bfloat16", "a product a layer: 128 is not 256", true},
                                   {"backbone", "LibTorch in bfloat16", "it has no kernels of its own"},
                                   {"loss", "LibTorch in float32", "the number of actions 40 is more than 32"}};
  CHECK_THROWS_WITH_AS(check_kernels(config, roads),
                       "run.kernels require: backbone would be computed by LibTorch in bfloat16, because it has no "
                       "kernels of its own; change that or take run.kernels auto",
                       UserError);
  CHECK_NOTHROW(check_kernels(config, {roads[0]}));
  for (const Kernels kernels : {Kernels::kAuto, Kernels::kOff}) {
    config.run.kernels = kernels;
    CHECK_NOTHROW(check_kernels(config, roads));
  }
}

TEST_CASE("kernels that are off say so") {
  for (const Road& road : roads_on_cpu(Config::from_settings({{"run.kernels", "off"}}))) {
    CHECK(road.road == "LibTorch in float32");
    if (road.part == "backbone" || road.part == "heads" || road.part == "encoder")
      CHECK(road.reason == "kernels are off");
  }
}
