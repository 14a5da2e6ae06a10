#include "memory/backbones/fast_weights/fast_weights.h"

#include <optional>
#include <span>
#include <vector>

#include "memory/backbones/fast_weights/fast_weight_memory.h"
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
        key_(register_module("key", first_weights(options).inner_map(options.width, written_width(options)))),
        value_(register_module("value", first_weights(options).inner_map(options.width, written_width(options)))),
        memory_(*this, options),
        query_dropout_(register_module("query_dropout", std::make_shared<Dropout>(options.dropout))),
        key_dropout_(register_module("key_dropout", std::make_shared<Dropout>(options.dropout))),
        value_dropout_(register_module("value_dropout", std::make_shared<Dropout>(options.dropout))),
        head_norm_(register_module("head_norm", std::make_shared<RmsNorm>(options.width / options.heads))),
        output_(register_module("output", first_weights(options).output_map(options.width, options.width))) {
    if (options.output_gate == OutputGate::kLowRankSigmoid) {
      const std::int64_t rank = options.width / options.heads;
      gate_down_ = register_module("gate_down", first_weights(options).inner_map(options.width, rank));
      gate_up_ = register_module("gate_up", first_weights(options).inner_map(rank, options.width));
      gate_bias_D_ = register_parameter("gate_bias", torch::zeros({options.width}));
    } else if (options.output_gate != OutputGate::kNone) {
      gate_ = register_module("gate", first_weights(options).inner_map(options.width, options.width));
    }
    if (options.convolution)
      convolution_ = register_module("convolution", std::make_shared<ShortConvolution>(
                                                        convolved_width(options), FastWeightsOptions::kConvolutionWidth,
                                                        options.convolution_bias));
    if (options.skip) skip_H_ = register_parameter("skip", torch::ones({options.heads}));
  }

  bool by_softmax() const override { return false; }
  std::vector<Tensor> output_parameters() const { return {output_->weight}; }

  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    auto shapes = FastWeightMemory::state_shapes(options);
    if (options.convolution) shapes.push_back({FastWeightsOptions::kConvolutionWidth - 1, convolved_width(options)});
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
    if (view != nullptr && options_.rule == FastRule::kDelta)
      view->write_strength_BH = in.write.unflatten(1, {options_.householder_steps, -1}).amax(1);
    return join(x_BD, with_skip(memory_.step(in, state), in.value));
  }

  static Support supports_learning(const Options& options) {
    if (const Support own = FastWeightMemory::supports_mixer(options); !own) return own;
    return supports_gate(options);
  }

  std::unique_ptr<cuda::Branch> branch(const FreshRows& rows, torch::Device device) const {
    return cuda::fast_weights_branch(fused_weights(), fused_settings(device), rows);
  }

  static Support supports_step(const Options& options, torch::ScalarType dtype, torch::Device device) {
    if (const Support own = FastWeightMemory::supports_step(options, dtype, device); !own) return own;
    return supports_gate(options);
  }
  std::unique_ptr<cuda::ForwardBranch> step_branch(const Tensor&, std::span<const Tensor> state) const {
    return cuda::fast_weights_step_branch(fused_weights(), fused_settings(state[0].device()),
                                          memory_.step_state(state));
  }

  static std::int64_t multiply_adds_per_step(const Options& options) {
    const std::int64_t width = options.width;
    std::int64_t products =
        width * (convolved_width(options) + width) + FastWeightMemory::multiply_adds_per_step(options);
    if (options.output_gate == OutputGate::kLowRankSigmoid)
      products += 2 * width * (width / options.heads);
    else if (options.output_gate != OutputGate::kNone)
      products += width * width;
    if (options.convolution) products += convolved_width(options) * FastWeightsOptions::kConvolutionWidth;
    if (options.skip) products += width;
    return products;
  }

 private:
  // Of all keys, or all values, of a step.
  static std::int64_t written_width(const Options& options) {
    return std::int64_t{options.width} * options.householder_steps;
  }
  static std::int64_t convolved_width(const Options& options) { return options.width + 2 * written_width(options); }
  static Support supports_gate(const Options& options) {
    if (options.output_gate == OutputGate::kLowRankSigmoid) return Support::no("its output gate has no kernels");
    return {};
  }

  struct Projected {
    Tensor query, key, value;  // [..., D], [..., n D] and the same with n Householder steps
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
    if (gate_) weights.gate_DD = gate_->weight;
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
  Projected parted(const Tensor& x) const {
    const std::int64_t written = written_width(options_);
    const std::vector<Tensor> parts = x.split_with_sizes({options_.width, written, written}, -1);
    return {parts[0], parts[1], parts[2]};
  }

  FastWeightInput input(const Tensor& x, const Projected& projected) {
    const std::int64_t written_heads = std::int64_t{options_.heads} * options_.householder_steps;
    const Tensor value = split_heads(projected.value, written_heads).contiguous();
    return memory_.input(x, memory_.feature(split_heads(projected.query, options_.heads), query_dropout_.get()),
                         memory_.feature(split_heads(projected.key, written_heads), key_dropout_.get()),
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
    return apply_linear(output_, normed * output_gate(x));
  }

  Tensor output_gate(const Tensor& x) {
    if (options_.output_gate == OutputGate::kLowRankSigmoid)
      return (apply_linear(gate_up_, apply_linear(gate_down_, x)) + gate_bias_D_).sigmoid();
    const Tensor gate = apply_linear(gate_, x);
    return options_.output_gate == OutputGate::kSilu ? torch::silu(gate) : gate.sigmoid();
  }

  Options options_;
  torch::nn::Linear query_, key_, value_;
  FastWeightMemory memory_;
  std::shared_ptr<Dropout> query_dropout_, key_dropout_, value_dropout_;
  std::shared_ptr<RmsNorm> head_norm_;
  torch::nn::Linear output_, gate_{nullptr}, gate_down_{nullptr}, gate_up_{nullptr};
  Tensor gate_bias_D_;
  std::shared_ptr<ShortConvolution> convolution_;
  Tensor skip_H_;
};

}  // namespace

LayerSpec FastWeightsOptions::layer(std::int64_t) const { return layer_spec<FastWeightsMixer>(*this); }

std::shared_ptr<SequenceModel> FastWeightsOptions::make(std::int64_t max_steps) const {
  return make_block_stack(*this, max_steps);
}

}  // namespace engram
