// What the synchronous HQLT and its delayed variants share: the parameters, the projections, how the outputs of fast
// weights and attention are mixed, and the plan of a call.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "memory/attention_maps.h"
#include "memory/backbone_options.h"
#include "memory/block_stack.h"
#include "memory/window_positions.h"
#include "nn/dropout.h"

namespace engram {

class HqltMixerBase : public torch::nn::Module, public AttentionMaps {
 public:
  static constexpr bool kCountsSteps = true;

  static std::int64_t multiply_adds_per_step(const HqltOptions& options);

 protected:
  explicit HqltMixerBase(const HqltOptions& options);

  struct Projected {
    torch::Tensor query, key, value;  // [..., H, D / H]
    torch::Tensor beta;               // [..., H]
  };
  Projected project(const torch::Tensor& x);
  static torch::Tensor fast_feature(const torch::Tensor& x) { return l2_normalize(torch::silu(x)); }
  // x [..., D]; fast_branch, window_branch [..., H, D / H] -> [..., D]. `view`, unless null, gets both and the gates.
  torch::Tensor mix(const torch::Tensor& x, const torch::Tensor& fast_branch, const torch::Tensor& window_branch,
                    LayerView* view = nullptr);

  static std::int64_t gate_width(const HqltOptions& options);

  HqltOptions options_;
  torch::nn::Linear query_, key_, value_, beta_;
  std::shared_ptr<Dropout> query_dropout_, key_dropout_, value_dropout_;
  torch::nn::Linear gate_{nullptr};  // none with Mixing::kSum
  std::shared_ptr<RmsNorm> head_norm_;
  torch::nn::Linear output_{nullptr};
};

// The shapes of fast weights, and of keys and values of a window.
std::vector<std::vector<std::int64_t>> hqlt_state_shapes(const HqltOptions& options);

}  // namespace engram
