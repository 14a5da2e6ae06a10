#include "memory/fast_weights.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "memory/attention_maps.h"
#include "memory/block_stack.h"
#include "memory/fast_weight_maps.h"
#include "memory/fast_weight_ops.h"
#include "memory/ops.h"
#include "memory/short_convolution.h"
#include "nn/autocast.h"

namespace engram {
namespace {

using torch::Tensor;

bool has_write_map(const FastWeightsOptions& options) {
  return options.write_strength == WriteStrength::kSigmoid || options.write_strength == WriteStrength::kExponential;
}

// Exactly the rule of delta_rule().
bool plain_delta_rule(const FastWeightsOptions& options) {
  return options.rule == FastRule::kDelta && options.decay == Decay::kNone &&
         options.attention_norm == AttentionNorm::kNone;
}

class FastWeightsMixer : public torch::nn::Module, public AttentionMaps {
 public:
  using Options = FastWeightsOptions;
  static constexpr bool kCountsSteps = false;

  using Plan = LengthsPlan;
  using StepPlan = EmptyStepPlan;

  // The maps that deltanet has come first, in its order, and so draw the same first weights.
  explicit FastWeightsMixer(const Options& options)
      : options_(options),
        rule_{options.rule == FastRule::kDelta, options.attention_norm,
              options.write_strength == WriteStrength::kExponential},
        query_(register_module("query", first_weights(options).inner_map(options.width, options.width))),
        key_(register_module("key", first_weights(options).inner_map(options.width, options.width))),
        value_(register_module("value", first_weights(options).inner_map(options.width, options.width))) {
    if (has_write_map(options))
      beta_ = register_module("beta", first_weights(options).inner_map(options.width, options.heads));
    query_dropout_ = register_module("query_dropout", std::make_shared<Dropout>(options.dropout));
    key_dropout_ = register_module("key_dropout", std::make_shared<Dropout>(options.dropout));
    value_dropout_ = register_module("value_dropout", std::make_shared<Dropout>(options.dropout));
    head_norm_ = register_module("head_norm", std::make_shared<RmsNorm>(options.width / options.heads));
    output_ = register_module("output", first_weights(options).output_map(options.width, options.width));
    if (options.output_gate != OutputGate::kNone)
      gate_ = register_module("gate", first_weights(options).inner_map(options.width, options.width));
    features_ = register_module("features", std::make_shared<FastWeightFeatures>(options));
    if (options.decay == Decay::kScalar || options.decay == Decay::kVector)
      decay_ = register_module("decay", std::make_shared<InputDecay>(options));
    if (options.convolution)
      convolution_ = register_module(
          "convolution", std::make_shared<ShortConvolution>(3 * options.width, FastWeightsOptions::kConvolutionWidth));
  }

  bool by_softmax() const override { return false; }

  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    const std::int64_t key_width = options.key_width();
    std::vector<std::vector<std::int64_t>> shapes{{options.heads, key_width, options.width / options.heads}};
    if (options.attention_norm != AttentionNorm::kNone) shapes.push_back({options.heads, key_width});
    if (options.write_strength == WriteStrength::kExponential) shapes.push_back({options.heads});
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
    const FastWeightState before = memory(state);
    FastWeightResult out;
    if (plain_delta_rule(options_)) {
      const DeltaRuleResult delta =
          delta_rule(in.query, in.key, in.value, in.write, before.weights_BHKV, plan.lengths_B);
      out = {delta.output_BTHV, {delta.state_BHKV, {}, {}}};
    } else {
      out = fast_weights(rule_, in, before, plan.lengths_B);
    }
    for (const Tensor& tensor : {out.state.weights_BHKV, out.state.key_sum_BHK, out.state.log_scale_BH, history_BSC})
      if (tensor.defined()) final_state.push_back(tensor);
    return join(x_BTD, out.output_BTHV);
  }

  Tensor step(const Tensor& x_BD, const StepPlan&, std::span<const Tensor> state, LayerView* view) {
    Projected projected = project(x_BD);
    if (convolution_) projected = parted(convolution_->step(joined(projected), state.back()));
    const FastWeightInput in = input(x_BD, projected);
    if (view != nullptr && shows_memory(options_)) view->write_strength_BH = in.write;
    const FastWeightState before = memory(state);
    return join(x_BD, plain_delta_rule(options_)
                          ? delta_rule_step(in.query, in.key, in.value, in.write, before.weights_BHKV)
                          : fast_weight_step(rule_, in, before));
  }

  // The write strengths of the delta rule; those of sums say nothing of what the memory answered before.
  static bool shows_memory(const Options& options) { return options.rule == FastRule::kDelta; }

  static Support learning_kernels(const Options& options) {
    if (plain_delta_rule(options) && options.feature_map == FeatureMap::kSilu && options.key_norm == KeyNorm::kL2 &&
        options.value_silu && !options.convolution && options.output_gate == OutputGate::kNone)
      return Support::no("the kernels of these settings are deltanet's");
    return Support::no("there are kernels for deltanet's settings alone");
  }

  static std::int64_t multiply_adds_per_step(const Options& options) {
    const std::int64_t width = options.width, heads = options.heads, key_width = options.key_width();
    const bool delta = options.rule == FastRule::kDelta;
    // Projections, then passes over the fast weights: write and read, with the delta rule also predict.
    std::int64_t products = 4 * width * width + (delta ? 3 : 2) * width * key_width;
    if (has_write_map(options)) products += width * heads;
    if (options.attention_norm != AttentionNorm::kNone) products += (delta ? 2 : 1) * heads * key_width;
    if (options.output_gate != OutputGate::kNone) products += width * width;
    if (options.convolution) products += 3 * width * FastWeightsOptions::kConvolutionWidth;
    return products + FastWeightFeatures::multiply_adds(options) + InputDecay::multiply_adds(options);
  }

 private:
  struct Projected {
    Tensor query, key, value;  // [..., D]
  };
  Projected project(const Tensor& x) { return {query_->forward(x), key_->forward(x), value_->forward(x)}; }
  // Side by side: one convolution takes all three.
  static Tensor joined(const Projected& in) { return torch::cat({in.query, in.key, in.value}, -1); }
  static Projected parted(const Tensor& x) {
    const std::vector<Tensor> parts = x.chunk(3, -1);
    return {parts[0], parts[1], parts[2]};
  }

  FastWeightInput input(const Tensor& x, const Projected& projected) {
    const auto feature = [&](const Tensor& part, const Dropout& dropout) {
      return features_->normalize(dropout.forward(features_->forward(split_heads(part, options_.heads))));
    };
    FastWeightInput in;
    in.query = feature(projected.query, *query_dropout_);
    in.key = feature(projected.key, *key_dropout_);
    const Tensor value = split_heads(projected.value, options_.heads).contiguous();
    in.value = value_dropout_->forward(options_.value_silu ? torch::silu(value) : value);
    InputDecay::Output decay;
    if (decay_) decay = decay_->forward(x);
    in.log_decay = decay.log_decay;
    if (options_.decay == Decay::kFixed) in.log_decay = fixed_log_decay(wide(value).narrow(-1, 0, 1));
    Tensor logit = beta_ ? beta_->forward(x) : Tensor();
    if (beta_ && !plain_delta_rule(options_)) logit = wide(logit);  // its kernel takes all of one type
    switch (options_.write_strength) {
      case WriteStrength::kOne:
        in.write = torch::ones_like(wide(value).select(-1, 0));
        break;
      case WriteStrength::kSigmoid:
        in.write = options_.beta_factor * torch::sigmoid(logit);
        break;
      case WriteStrength::kStep:
        in.write = decay.step;
        break;
      case WriteStrength::kExponential:
        in.write = logit;
        break;
    }
    if (options_.rule == FastRule::kGatedSum) in.log_decay = torch::log_sigmoid(-logit).unsqueeze(-1);
    return in;
  }

  FastWeightState memory(std::span<const Tensor> state) const {
    FastWeightState memory{state[0], {}, {}};
    std::size_t next = 1;
    if (rule_.attention_norm != AttentionNorm::kNone) memory.key_sum_BHK = state[next++];
    if (rule_.log_write) memory.log_scale_BH = state[next];
    return memory;
  }

  Tensor join(const Tensor& x, const Tensor& heads) {
    const Tensor normed = join_heads(head_norm_->forward(heads));
    if (options_.output_gate == OutputGate::kNone) return output_->forward(normed);
    const Tensor gate = gate_->forward(x);
    return output_->forward(normed * (options_.output_gate == OutputGate::kSilu ? torch::silu(gate) : gate.sigmoid()));
  }

  Options options_;
  FastWeightRule rule_;
  torch::nn::Linear query_, key_, value_, beta_{nullptr};
  std::shared_ptr<Dropout> query_dropout_, key_dropout_, value_dropout_;
  std::shared_ptr<RmsNorm> head_norm_;
  torch::nn::Linear output_{nullptr}, gate_{nullptr};
  std::shared_ptr<FastWeightFeatures> features_;
  std::shared_ptr<InputDecay> decay_;
  std::shared_ptr<ShortConvolution> convolution_;
};

}  // namespace

LayerSpec FastWeightsOptions::layer(std::int64_t) const { return layer_spec<FastWeightsMixer>(*this); }

std::shared_ptr<SequenceModel> FastWeightsOptions::make(std::int64_t max_steps) const {
  check();
  return make_block_stack(*this, max_steps);
}

}  // namespace engram
