// Observations of a task as tensors.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "envs/task.h"

namespace engram {

inline torch::ScalarType observation_dtype(const ObservationSpec& observation) {
  return observation.type == ElementType::kUint8 ? torch::kUInt8 : torch::kFloat32;
}

// [leading..., shape of one observation]
inline std::vector<std::int64_t> observation_shape(std::vector<std::int64_t> leading,
                                                   const ObservationSpec& observation) {
  const std::vector<std::int64_t> shape = observation.shape();
  leading.insert(leading.end(), shape.begin(), shape.end());
  return leading;
}

}  // namespace engram
