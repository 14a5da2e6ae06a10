// Gated Transformer-XL, the options.
#pragma once

#include <cstdint>
#include <memory>

#include "memory/core/backbone_options.h"

namespace engram {

// GTrXL (Parisotto et al. 2020, arXiv:1910.06764): Transformer-XL's relative attention over the last `window` steps,
// layer norms on the way into each part alone ("identity map reordering"), and a GRU-like gate in place of each
// residual sum.
struct GtrxlOptions {
  static constexpr const char* kName = "gtrxl";
  static constexpr const char* kSummary = "gated Transformer-XL, a window";
  static constexpr const char* kSource =
      "Parisotto et al., Stabilizing Transformers for reinforcement learning, 2020; relative attention of Dai et al., "
      "Transformer-XL, 2019";
  int width = 100;
  int layers = 2;
  int heads = 2;
  int mlp_width = 0;     // 0: 4 times the width
  int window = 64;       // steps, the current one included
  double gate_bias = 2;  // b_g at first; above 0 each part begins near the identity
  double dropout = 0.1;

  int inner_width() const { return mlp_width > 0 ? mlp_width : 4 * width; }
  void list_options(OptionList& list);
  void check() const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

}  // namespace engram
