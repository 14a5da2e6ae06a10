#include "memory/backbones/fast_weights.h"

#include <optional>
#include <span>
#include <vector>

#include "memory/backbones/fast_weight_memory.h"
#include "memory/core/block_stack.h"
#include "memory/fused/fast_weights.h"
#include "memory/ops/attention_maps.h"
#include "memory/ops/short_convolution.h"

namespace engram {
namespace {

using torch::Tensor;

class FastWeightsMixer : public torch::nn::Module, public AttentionMaps {
 public:
  using Options = FastWeightsOptions;
  static constexpr bool kCountsSteps = false;

  using Plan = LengthsPlan;
  using StepPlan = EmptyStepPlan;

  explicit FastWeightsMixer(const Options& options)
      : options_(options),
        query_(register_module("query", first_weights(options).inner_map(options.width, options.width))),
        key_(register_module("key", first_weights(options).inner_map(options.width, options.width))),
        value_(register_module("value", first_weights(options).inner_map(options.width, options.width))),
        memory_(*this, options),
        query_dropout_(register_module("query_dropout", std::make_shared<Dropout>(options.dropout))),
        key_dropout_(register_module("key_dropout", std::make_shared<Dropout>(options.dropout))),
        value_dropout_(register_module("value_dropout", std::make_shared<Dropout>(options.dropout))),
        head_norm_(register_module("head_norm", std::make_shared<RmsNorm>(options.width / options.heads))),
        output_(register_module("output", first_weights(options).output_map(options.width, options.width))) {
    if (options.output_gate != OutputGate::kNone)
      gate_ = register_module("gate", first_weights(options).inner_map(options.width, options.width));
    if (options.convolution)
      convolution_ = register_module(
          "convolution", std::make_shared<ShortConvolution>(3 * options.width, FastWeightsOptions::kConvolutionWidth,
                                                            options.convolution_bias));
    if (options.skip) skip_H_ = register_parameter("skip", torch::ones({options.heads}));
  }

  bool by_softmax() const override { return false; }
  std::vector<Tensor> output_parameters() const { return {output_->weight}; }

  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    auto shapes = FastWeightMemory::state_shapes(options);
    if (options.convolution) shapes.push_back({FastWeightsOptions::kConvolutionWidth - 1, 3 * options.width});
    return shapes;
  }

  Tensor forward(const Tensor& x_BTD, const Plan& plan, std::span<const Tensor> state,
                 std::vector<Tensor>& final_state) {
    Projected projected = project(x_BTD);
    Tensor history_BSC;
    if (convolution_) {
      const auto [convolved_BTC, state_BSC] = convolution_->forward(joined(projected), state.back(), plan.lengths_B);
      projected = parted(convolved_BTC);
      history_BSC = state_BSC;
    }
    const FastWeightInput in = input(x_BTD, projected);
    const Tensor read_BTHV = memory_.forward(in, state, plan.lengths_B, final_state, plan.forgets);
    if (convolution_) final_state.push_back(history_BSC);
    return join(x_BTD, with_skip(read_BTHV, in.value));
  }

  Tensor step(const Tensor& x_BD, const StepPlan&, std::span<const Tensor> state, LayerView* view) {
    Projected projected = project(x_BD);
    if (convolution_) projected = parted(convolution_->step(joined(projected), state.back()));
    const FastWeightInput in = input(x_BD, projected);
    // Those of sums say nothing of what the memory answered before.
    if (view != nullptr && options_.rule == FastRule::kDelta) view->write_strength_BH = in.write;
    return join(x_BD, with_skip(memory_.step(in, state), in.value));
  }

  static Support supports_learning(const Options& options) { return FastWeightMemory::supports_mixer(options); }

  std::unique_ptr<cuda::Branch> branch(const FreshRows& rows, torch::Device device) const {
    return cuda::fast_weights_branch(fused_weights(), fused_settings(device), rows);
  }

  static Support supports_step(const Options& options, torch::ScalarType dtype, torch::Device device) {
    return FastWeightMemory::supports_step(options, dtype, device);
  }
  std::unique_ptr<cuda::ForwardBranch> step_branch(const Tensor&, std::span<const Tensor> state) const {
    return cuda::fast_weights_step_branch(fused_weights(), fused_settings(state[0].device()),
                                          memory_.step_state(state));
  }

  static std::int64_t multiply_adds_per_step(const Options& options) {
    const std::int64_t width = options.width;
    std::int64_t products = 4 * width * width + FastWeightMemory::multiply_adds_per_step(options);
    if (options.output_gate != OutputGate::kNone) products += width * width;
    if (options.convolution) products += 3 * width * FastWeightsOptions::kConvolutionWidth;
    if (options.skip) products += width;
    return products;
  }

 private:
  struct Projected {
    Tensor query, key, value;  // [..., D]
  };
  Projected project(const Tensor& x) {
    const std::vector<Tensor> mapped = apply_linears({query_, key_, value_}, x);
    return {mapped[0], mapped[1], mapped[2]};
  }
  // As the fused branches take them.
  cuda::FastWeightsWeights fused_weights() const {
    cuda::FastWeightsWeights weights = memory_.fused_weights();
    weights.query_DD = query_->weight;
    weights.key_DD = key_->weight;
    weights.value_DD = value_->weight;
    if (gate_) weights.gate_GD = gate_->weight;
    if (convolution_) weights.convolution_CW = convolution_->weight_CW();
    if (convolution_) weights.convolution_bias_C = convolution_->bias_C();
    weights.skip_H = skip_H_;
    weights.head_norm_K = head_norm_->weight();
    weights.output_DD = output_->weight;
    return weights;
  }
  cuda::FastWeightsSettings fused_settings(torch::Device device) const {
    return {.options = options_,
            .query_dropout = query_dropout_->key(device),
            .key_dropout = key_dropout_->key(device),
            .value_dropout = value_dropout_->key(device),
            .beside = std::nullopt};
  }
  // Side by side: one convolution takes all three.
  static Tensor joined(const Projected& in) { return torch::cat({in.query, in.key, in.value}, -1); }
  static Projected parted(const Tensor& x) {
    const std::vector<Tensor> parts = x.chunk(3, -1);
    return {parts[0], parts[1], parts[2]};
  }

  FastWeightInput input(const Tensor& x, const Projected& projected) {
    const auto heads = [this](const Tensor& part) { return split_heads(part, options_.heads); };
    const Tensor value = heads(projected.value).contiguous();
    return memory_.input(x, memory_.feature(heads(projected.query), query_dropout_.get()),
                         memory_.feature(heads(projected.key), key_dropout_.get()),
                         value_dropout_->forward(options_.value_silu ? torch::silu(value) : value));
  }

  // Both [..., H, V]; what is read is divided by sqrt(K) already.
  Tensor with_skip(const Tensor& read, const Tensor& value) const {
    if (!skip_H_.defined()) return read;
    return read + value * (skip_H_ * read_scale(options_.attention_norm, options_.key_width())).unsqueeze(1);
  }

  Tensor join(const Tensor& x, const Tensor& heads) {
    const Tensor normed = join_heads(head_norm_->forward(heads));
    if (options_.output_gate == OutputGate::kNone) return apply_linear(output_, normed);
    const Tensor gate = apply_linear(gate_, x);
    return apply_linear(output_,
                        normed * (options_.output_gate == OutputGate::kSilu ? torch::silu(gate) : gate.sigmoid()));
  }

  Options options_;
  torch::nn::Linear query_, key_, value_;
  FastWeightMemory memory_;
  std::shared_ptr<Dropout> query_dropout_, key_dropout_, value_dropout_;
  std::shared_ptr<RmsNorm> head_norm_;
  torch::nn::Linear output_, gate_{nullptr};
  std::shared_ptr<ShortConvolution> convolution_;
  Tensor skip_H_;
};

}  // namespace

LayerSpec FastWeightsOptions::layer(std::int64_t) const { return layer_spec<FastWeightsMixer>(*this); }

std::shared_ptr<SequenceModel> FastWeightsOptions::make(std::int64_t max_steps) const {
  return make_block_stack(*this, max_steps);
}

}  // namespace engram
