// What the Transformer and GTrXL share: a list of layers with MLPs, and a state that is the steps taken, then a ring of
// keys and one of values for each layer.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <vector>

#include "memory/core/sequence_model.h"
#include "memory/ops/ops.h"

namespace engram {

// Those of all layers, which are of type Layer.
template <class Layer>
std::vector<torch::Tensor> mlp_parameters_of(const torch::nn::ModuleList& layers) {
  std::vector<torch::Tensor> all;
  for (const auto& layer : *layers) {
    const std::vector<torch::Tensor> own = layer->template as<Layer>()->mlp_parameters();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

inline KeyValueRing ring_of_layer(const MemoryState& state, int layer) {
  const auto first = static_cast<std::size_t>(1 + 2 * layer);
  return {state.tensors[first], state.tensors[first + 1]};
}

}  // namespace engram
