#include "memory/core/roads.h"

#include <string>

#include "nn/device/road.h"

namespace engram {
namespace {

// `blocks`: of a backbone that has no kernels for all of it.
Road around_mixers(Road road, const Support& blocks, torch::ScalarType dtype) {
  if (!road.fast && blocks) road.road = kFusedBlocks + (" in " + type_name(dtype));
  return road;
}

}  // namespace

Road learning_road(const SequenceModel& backbone, bool use_kernels, torch::Device device, torch::ScalarType dtype) {
  const Road road = road_of("backbone", backbone.supports_learning(dtype, device),
                            backbone.supports_fastest_learning(dtype, device), use_kernels, device, dtype);
  return use_kernels ? around_mixers(road, backbone.supports_blocks(dtype, device), dtype) : road;
}

Road step_road(const SequenceModel& backbone, torch::Device device, torch::ScalarType dtype) {
  const Support kernels =
      device.is_cuda() ? backbone.supports_step(dtype, device) : Support::no("kernels are of a GPU");
  const Road road = road_of("step", kernels, Support(), /*use_kernels=*/true, device, dtype);
  return device.is_cuda() ? around_mixers(road, backbone.supports_step_blocks(dtype, device), dtype) : road;
}

}  // namespace engram
