// Positions in the attention of a window: queries and keys are turned where the options ask for it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "memory/core/layer.h"
#include "memory/ops/ops.h"
#include "nn/layers/layers.h"

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

  struct Projected {
    torch::Tensor query, key, value;  // [..., H, D / H]; query and key turned
  };
  // Of x [..., D] by the maps of queries, keys and values.
  Projected project(const torch::nn::Linear& query, const torch::nn::Linear& key, const torch::nn::Linear& value,
                    const torch::Tensor& x, std::int64_t heads) const {
    const std::vector<torch::Tensor> mapped = apply_in_heads({query, key, value}, x, heads);
    return {turn(mapped[0]), turn(mapped[1]), mapped[2]};
  }

 private:
  std::optional<Rotary> rotary_;
};

}  // namespace engram
