// The weights that a training run ends with.
#pragma once

#include "agents/act/network.h"
#include "agents/run/training/train_observer.h"
#include "storage/tensors/safetensors.h"
#include "storage/tensors/weights.h"

namespace engram::testing {

struct LastWeights : TrainObserver {
  void finished(const TrainStatus&, const AgentNetwork& network) override {
    for (const auto& [name, tensor] : module_weights(network)) weights[name] = tensor.detach().clone();
  }
  TensorMap weights;
};

}  // namespace engram::testing
