// The weights of the loss in the type in which the rows are computed.
#pragma once

#include "agents/learn/ppo/losses.h"
#include "kernels/learner/ppo_loss/row.h"

namespace engram {

inline PpoRowWeights row_weights(const PpoWeights& weights) {
  return {.clip = static_cast<float>(weights.clip),
          .value_clip = static_cast<float>(weights.value_clip),
          .value_error_bound = static_cast<float>(weights.value_error_bound),
          .value_weight = static_cast<float>(weights.value_weight),
          .entropy_weight = static_cast<float>(weights.entropy_weight)};
}

}  // namespace engram
