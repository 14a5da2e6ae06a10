// ppo_loss() on a CPU in float32: all losses and the gradients of logits and values in one pass over the rows.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "agents/learn/ppo/losses.h"

namespace engram {

// Whether cpu_ppo_loss() takes these heads' outputs.
bool supports_cpu_ppo_loss(const PpoHeads& heads);

// heads: supported. scales: float32.
PpoLoss cpu_ppo_loss(const PpoHeads& heads, const EpisodeBatch& batch, const PpoScales& scales,
                     const PpoWeights& weights, std::int64_t num_actions);

}  // namespace engram
