// The agent's step in double precision on the CPU: what the kernel is tested against. Formulas in agent_step.h.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/acting/agent_step/agent_step.h"

namespace engram {

// As AgentStepWeights, owning.
struct AgentStepHostWeights {
  using Tensor = std::vector<float>;
  Tensor convolution1, convolution1_bias, convolution2, convolution2_bias, observation, observation_bias;
  struct Layer {
    Tensor mixer_norm, query, key, value, beta, mixer_gate, head_norm, output, mlp_norm, gate, up, down;
  };
  std::vector<Layer> layers;
  Tensor norm, hidden1, hidden1_bias, hidden2, hidden2_bias, output, output_bias;
};

struct AgentStepReferenceRow {
  std::int64_t position = 0;
  struct Layer {
    std::vector<double> fast_weights_HKV, key_ring_SHK, value_ring_SHK;
  };
  std::vector<Layer> layers;

  explicit AgentStepReferenceRow(const AgentStepShape& shape);  // zeros
};

// One step of row `row`, whose dropout is that of `rows` (seed and tick on the host); returns the probabilities. With
// `round_operands`, the weights and inputs of matrix products are rounded to bfloat16, as the kernel does with
// Dtype::kBfloat16.
std::vector<double> agent_step_reference(const AgentStepShape& shape, const AgentStepHostWeights& weights,
                                         const AgentStepRows& rows, bool round_operands, std::int64_t row,
                                         const std::vector<double>& observation, AgentStepReferenceRow& state);

}  // namespace engram
