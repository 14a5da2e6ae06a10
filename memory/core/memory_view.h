// MemoryView: what the layers of a backbone read from their memory, and wrote to it, in one step, or what they hold
// after it; for people to look at.
//
// Shapes: B batch rows, H heads, A ages, V a head's channels, C channels.
#pragma once

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace engram {

// A part of a layer's state after the step, a number a channel.
struct StateView {
  std::string name;
  torch::Tensor value_BC;
};

// Of a vector [B, C] its numbers; of matrices [B, ..., K] the Euclidean norm of each of their rows, which of complex
// numbers (K = 2) is their absolute value.
inline StateView state_view(std::string name, const torch::Tensor& state) {
  const torch::Tensor number_BX = state.dim() > 2 ? state.norm(2, -1) : state.clone();
  return {std::move(name), number_BX.reshape({state.size(0), -1})};
}

// Of one layer. What a layer does not have is undefined.
struct LayerView {
  // Weights of softmax attention; age a stands for the step a steps ago, 0 for the current one. They sum to 1, and are
  // 0 for steps that no row has taken or that the row no longer sees.
  torch::Tensor attention_BHA;
  // beta of the delta rule, in 0 .. 1 or 0 .. 2 (memory.beta_factor): how far the fast weights' answer to the key is
  // moved towards the value; where a step writes several times, the greatest.
  torch::Tensor write_strength_BH;
  // How much of what the fast weights and the window gave passes on, in 0 .. 1. A gate per channel gives the fast
  // weights the mean over the head's channels that stands here, and the window what is missing to 1.
  torch::Tensor fast_gate_BH, window_gate_BH;
  // What they gave, before the gates and the norm behind them; of a layer that has both.
  torch::Tensor fast_output_BHV, window_output_BHV;
  // Of a layer that has none of the above.
  std::vector<StateView> states;

  bool empty() const {
    return states.empty() && !attention_BHA.defined() && !write_strength_BH.defined() && !fast_gate_BH.defined() &&
           !window_gate_BH.defined();
  }
};

struct MemoryView {
  std::vector<LayerView> layers;
};

}  // namespace engram
