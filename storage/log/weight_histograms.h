// Histograms of an agent's weights, for TensorBoard.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "storage/log/tensorboard.h"
#include "storage/tensors/safetensors.h"

namespace engram {

inline constexpr int kWeightBuckets = 30;

// Of the weights of an AgentNetwork by their names, on the CPU, as the tags weights/encoder, weights/backbone,
// weights/actor and weights/critics; of equal buckets between the least and the largest. Target critics, which follow
// the critics, are left out, and so is a group with a weight that is not finite.
std::vector<std::pair<std::string, Histogram>> weight_histograms(const TensorMap& weights);

}  // namespace engram
