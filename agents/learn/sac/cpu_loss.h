// sac_loss() on a CPU in float32: all losses and the gradients of logits and Q values in one pass over the rows, in
// place of some hundred operations.
#pragma once

#include <torch/torch.h>

#include "agents/learn/sac/sac.h"

namespace engram {

// Whether cpu_sac_loss() takes these heads' outputs.
bool supports_cpu_sac_loss(const SacHeads& heads);

// heads: supported. alpha: float32, one number.
SacLoss cpu_sac_loss(const SacHeads& heads, const EpisodeBatch& batch, const torch::Tensor& alpha, double gamma);

}  // namespace engram
