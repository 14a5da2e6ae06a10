// What the synchronous HQLT and its delayed variants share: the parameters, the projections, how the outputs of fast
// weights and attention are mixed, and the plan of a call.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "memory/backbones/fast_weights/fast_weight_memory.h"
#include "memory/core/backbone_options.h"
#include "memory/core/block_stack.h"
#include "memory/fused/fast_weights.h"
#include "memory/ops/attention_maps.h"
#include "memory/ops/short_convolution.h"
#include "memory/ops/window_positions.h"
#include "nn/layers/dropout.h"

namespace engram {

class HqltMixerBase : public torch::nn::Module, public AttentionMaps {
 public:
  static constexpr bool kCountsSteps = true;

  // Options: HqltOptions or one of its delayed relatives.
  template <class Options>
  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    return with_convolution(with_window(FastWeightMemory::state_shapes(options.fast_weight_options()), options),
                            options);
  }
  template <class Options>
  static std::int64_t multiply_adds_per_step(const Options& options) {
    return own_multiply_adds(options) + FastWeightMemory::multiply_adds_per_step(options.fast_weight_options());
  }
  std::vector<torch::Tensor> output_parameters() const { return {output_->weight}; }

 protected:
  HqltMixerBase(const HqltSharedOptions& options, const FastWeightsOptions& fast_weights);

  struct Projected {
    torch::Tensor query, key, value;  // [..., H, D / H]
  };
  // Of a call's steps. With a convolution of what `state` holds of the past, whose new past `history_BSC` gets: the
  // layer's last state, which stays undefined without.
  Projected project(const torch::Tensor& x_BTD, std::span<const torch::Tensor> state, const torch::Tensor& lengths_B,
                    torch::Tensor& history_BSC);
  // Of a step, which is written into the past.
  Projected project_step(const torch::Tensor& x_BD, std::span<const torch::Tensor> state);
  // The window of a call: what attention sees of its steps.
  struct WindowCall {
    WindowCall(const HqltSharedOptions& options, const Span& span);
    // ring: of keys and of values, as the call finds them.
    WindowPlan::Output attend(const Projected& in, std::span<const torch::Tensor> ring) const {
      return window.attend(positions.turn(in.query), positions.turn(in.key), in.value, {ring[0], ring[1]});
    }
    torch::Tensor lengths_B;
    bool forgets;
    WindowPlan window;
    WindowPositions positions;
  };
  // The window of a step at place_B of the episode or, where attention sees the current chunk alone, of the chunk.
  struct WindowStep {
    WindowStep(const HqltSharedOptions& options, const torch::Tensor& place_B, torch::ScalarType dtype)
        : place_B(place_B),
          window(options.window, options.window, place_B, dtype),
          positions(options, place_B, dtype) {}
    // `view`, unless null, gets the weights.
    torch::Tensor attend(const Projected& in, std::span<const torch::Tensor> ring, LayerView* view) const {
      return window.attend(positions.turn(in.query), positions.turn(in.key), in.value, {ring[0], ring[1]},
                           /*weight_dropout=*/nullptr, view == nullptr ? nullptr : &view->attention_BHA);
    }
    torch::Tensor place_B;
    WindowStepPlan window;
    WindowPositions positions;
  };
  // The fast weights of those projections at the steps of x.
  FastWeightInput fast_input(const torch::Tensor& x, const torch::Tensor& query, const torch::Tensor& key,
                             const torch::Tensor& value) {
    return memory_.input(x, memory_.feature(query), memory_.feature(key), value);
  }
  // x [..., D]; fast_branch, window_branch [..., H, D / H] -> [..., D]. `view`, unless null, gets both and the gates.
  torch::Tensor mix(const torch::Tensor& x, const torch::Tensor& fast_branch, const torch::Tensor& window_branch,
                    LayerView* view = nullptr);
  // `shapes`, and behind them the rings of the window's keys and values, or the convolution's past.
  static std::vector<std::vector<std::int64_t>> with_window(std::vector<std::vector<std::int64_t>> shapes,
                                                            const HqltSharedOptions& options);
  static std::vector<std::vector<std::int64_t>> with_convolution(std::vector<std::vector<std::int64_t>> shapes,
                                                                 const HqltSharedOptions& options);
  // As the fused branches take them.
  cuda::FastWeightsWeights fused_weights() const;
  cuda::FastWeightsSettings fused_settings(std::optional<Delay> delay, torch::Device device) const;

  HqltSharedOptions options_;
  FastWeightsOptions fast_weights_;
  torch::nn::Linear query_, key_, value_;
  FastWeightMemory memory_;
  std::shared_ptr<ShortConvolution> convolution_;  // null without
  std::shared_ptr<Dropout> query_dropout_, key_dropout_, value_dropout_;
  torch::nn::Linear gate_{nullptr};         // none with Mixing::kSum
  torch::nn::Linear output_gate_{nullptr};  // none without an output gate
  std::shared_ptr<RmsNorm> head_norm_;
  torch::nn::Linear output_{nullptr};

 private:
  // Query, key and value of projections side by side, [..., 3 D] -> [..., H, D / H] each.
  std::vector<torch::Tensor> heads_of(const torch::Tensor& joined) const;
  // With dropout, the value past its silu.
  Projected dropped(const std::vector<torch::Tensor>& mapped);
  static std::int64_t gate_width(const HqltSharedOptions& options);
  // Without those of the fast weights.
  static std::int64_t own_multiply_adds(const HqltSharedOptions& options);
};

}  // namespace engram
