// Positions in the attention of a window: queries and keys are turned where the options ask for it.
#pragma once

#include <torch/torch.h>

#include <optional>

#include "memory/layer.h"
#include "memory/ops.h"

namespace engram {

class WindowPositions {
 public:
  // Options: with positions, width and heads. positions: int64, any shape.
  template <class Options>
  WindowPositions(const Options& options, const torch::Tensor& positions, torch::ScalarType dtype) {
    if (options.positions == PositionCode::kRope) rotary_.emplace(positions, options.width / options.heads, dtype);
  }
  // [..., H, K] -> the same
  torch::Tensor turn(const torch::Tensor& vectors) const { return rotary_ ? rotary_->turn(vectors) : vectors; }

 private:
  std::optional<Rotary> rotary_;
};

// The position of each step of a call: [B, T], or [1, T] if all rows are fresh.
inline torch::Tensor step_positions(const Span& span) {
  const torch::Tensor step_1T = torch::arange(span.steps, span.position_B.options()).unsqueeze(0);
  return span.max_position == 0 ? step_1T : span.position_B.unsqueeze(1) + step_1T;
}

}  // namespace engram
