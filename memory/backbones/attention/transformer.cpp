// GPT-2 block (Radford et al. 2019) as the RL baseline has it: input + sinusoidal position code (Vaswani et al. 2017),
//   x <- x + Attention(LayerNorm(x)),   x <- x + MLP(LayerNorm(x)),   and one more LayerNorm after the last block.
// Attention sees the whole episode, through a cache of max_steps. Weights N(0, 0.02), biases 0; GELU in GPT-2's tanh
// form.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "memory/backbones/attention/attention_layers.h"
#include "memory/core/backbone_options.h"
#include "memory/core/block_stack.h"
#include "memory/core/first_scale.h"
#include "memory/fused/attention.h"
#include "memory/ops/attention_maps.h"
#include "nn/fused/support.h"

namespace engram {
namespace {

using torch::Tensor;

torch::nn::Linear make_biased_linear(std::int64_t inputs, std::int64_t outputs) {
  torch::nn::Linear linear(inputs, outputs);
  torch::nn::init::normal_(linear->weight, 0, kWeightStd);
  torch::nn::init::zeros_(linear->bias);
  return linear;
}

torch::nn::LayerNorm make_layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(kLayerNormEpsilon));
}

cuda::AffineWeights affine(const torch::nn::Linear& linear) { return {linear->weight, linear->bias}; }
cuda::Norm fused_norm(const torch::nn::LayerNorm& norm) { return {norm->weight, norm->bias}; }

// [steps, D]: sin in the even channels, cos in the odd ones, of p / 10000^(2i/D).
Tensor sinusoidal_code(std::int64_t steps, std::int64_t width) {
  const Tensor pair_P = torch::arange((width + 1) / 2, torch::kFloat64);
  const Tensor frequency_P = torch::pow(10000.0, pair_P * (-2.0 / static_cast<double>(width)));
  const Tensor angle_TP = torch::arange(steps, torch::kFloat64).unsqueeze(1) * frequency_P;
  return torch::stack({angle_TP.sin(), angle_TP.cos()}, 2).flatten(1).narrow(1, 0, width).to(torch::kFloat32);
}

class Attention : public torch::nn::Module, public AttentionMaps {
 public:
  explicit Attention(const TransformerOptions& options)
      : options_(options),
        query_(register_module("query", make_biased_linear(options.width, options.width))),
        key_(register_module("key", make_biased_linear(options.width, options.width))),
        value_(register_module("value", make_biased_linear(options.width, options.width))),
        output_(register_module("output", make_biased_linear(options.width, options.width))),
        weight_dropout_(register_module("weight_dropout", std::make_shared<Dropout>(options.dropout))) {}

  Tensor forward(const Tensor& x_BTD, const WindowPlan& plan, const KeyValueRing& ring,
                 std::vector<Tensor>& final_state) {
    const std::vector<Tensor> in = project(x_BTD);
    const WindowPlan::Output out = plan.attend(in[0], in[1], in[2], ring, weight_dropout_.get());
    final_state.insert(final_state.end(), {out.ring.key_BSHK, out.ring.value_BSHV});
    return apply_linear(output_, join_heads(out.output_BTHV));
  }

  Tensor step(const Tensor& x_BD, const WindowStepPlan& plan, const KeyValueRing& ring, LayerView* view) {
    const std::vector<Tensor> in = project(x_BD);
    return apply_linear(output_, join_heads(plan.attend(in[0], in[1], in[2], ring, weight_dropout_.get(),
                                                        view == nullptr ? nullptr : &view->attention_BHA)));
  }

  const torch::nn::Linear& output_map() const { return output_; }

  std::unique_ptr<cuda::Branch> branch(const FreshRows& rows, torch::Device device) const {
    return cuda::attention_branch(fused_weights(), options_.heads, rows, fused_settings(rows.steps, device));
  }
  std::unique_ptr<cuda::ForwardBranch> step_branch(const Tensor& position_B, const KeyValueRing& ring) const {
    return cuda::attention_step_branch(fused_weights(), options_.heads, position_B, ring,
                                       fused_settings(ring.key_BSHK.size(1), position_B.device()));
  }

 private:
  cuda::AttentionWeights fused_weights() const {
    return {affine(query_), affine(key_), affine(value_), affine(output_)};
  }
  cuda::WindowSettings fused_settings(std::int64_t window, torch::Device device) const {
    return {.window = window, .rotary = false, .weight_dropout = weight_dropout_->key(device)};
  }

  // Query, key and value.
  std::vector<Tensor> project(const Tensor& x) const {
    return apply_in_heads({query_, key_, value_}, x, options_.heads);
  }

  TransformerOptions options_;
  torch::nn::Linear query_, key_, value_, output_;
  std::shared_ptr<Dropout> weight_dropout_;
};

class Mlp : public torch::nn::Module {
 public:
  Mlp(std::int64_t width, std::int64_t inner)
      : up_(register_module("up", make_biased_linear(width, inner))),
        down_(register_module("down", make_biased_linear(inner, width))) {}

  Tensor forward(const Tensor& x) { return apply_linear(down_, torch::gelu(apply_linear(up_, x), "tanh")); }

  cuda::GeluMlpWeights fused_weights() const { return {affine(up_), affine(down_)}; }

 private:
  torch::nn::Linear up_, down_;
};

class Block : public torch::nn::Module {
 public:
  Block(const TransformerOptions& options, std::int64_t max_steps)
      : max_steps_(max_steps),
        attention_norm_(register_module("attention_norm", make_layer_norm(options.width))),
        attention_(register_module("attention", std::make_shared<Attention>(options))),
        mlp_norm_(register_module("mlp_norm", make_layer_norm(options.width))),
        mlp_(register_module("mlp", std::make_shared<Mlp>(options.width, options.inner_width()))),
        attention_dropout_(register_module("attention_dropout", std::make_shared<Dropout>(options.dropout))),
        mlp_dropout_(register_module("mlp_dropout", std::make_shared<Dropout>(options.dropout))) {
    const torch::nn::Linear& output = attention_->output_map();
    if (options.first_values == FirstValues::kCommon)
      bring_to_common_scale(*attention_, {output->weight, output->bias}, options.width, scale_steps(), attend_fresh());
  }

  double added_scale(std::uint64_t seed) {
    return engram::added_scale(*attention_, attention_->output_map()->weight.size(0), scale_steps(), attend_fresh(),
                               seed);
  }

  // attend: the attention over sequences or over one step.
  template <class Attend>
  Tensor run(const Tensor& x, Attend attend) {
    const Tensor mixed = attention_dropout_->add(x, attend(*attention_, attention_norm_->forward(x)));
    return mlp_dropout_->add(mixed, mlp_->forward(mlp_norm_->forward(mixed)));
  }
  std::vector<Tensor> mlp_parameters() const { return mlp_->parameters(); }

  // What run() adds, with the attention over fresh sequences.
  void add_residuals(std::vector<cuda::Residual>& residuals, const FreshRows& rows, torch::Device device) const {
    residuals.push_back(
        {fused_norm(attention_norm_), attention_->branch(rows, device), attention_dropout_->key(device)});
    residuals.push_back(
        {fused_norm(mlp_norm_), cuda::gelu_mlp_branch(mlp_->fused_weights()), mlp_dropout_->key(device)});
  }
  // The same, with the attention over one step.
  void add_step_residuals(std::vector<cuda::ForwardResidual>& residuals, const Tensor& position_B,
                          const KeyValueRing& ring) const {
    const torch::Device device = position_B.device();
    residuals.push_back(
        {fused_norm(attention_norm_), attention_->step_branch(position_B, ring), attention_dropout_->key(device)});
    residuals.push_back(
        {fused_norm(mlp_norm_), cuda::gelu_mlp_branch(mlp_->fused_weights()), mlp_dropout_->key(device)});
  }

 private:
  std::int64_t scale_steps() const { return std::min(kScaleSteps, max_steps_); }
  Mix attend_fresh() {
    return [this](const Tensor& x_BTD, const Tensor& lengths_B) {
      const WindowPlan plan(max_steps_, x_BTD.size(1), 0, torch::zeros_like(lengths_B), /*lengths_B=*/{},
                            x_BTD.scalar_type());
      std::vector<Tensor> final_state;
      return attention_->forward(attention_norm_->forward(x_BTD), plan, {}, final_state);
    };
  }

  std::int64_t max_steps_;
  torch::nn::LayerNorm attention_norm_;
  std::shared_ptr<Attention> attention_;
  torch::nn::LayerNorm mlp_norm_;
  std::shared_ptr<Mlp> mlp_;
  std::shared_ptr<Dropout> attention_dropout_, mlp_dropout_;
};

class Transformer final : public SequenceModel {
 public:
  Transformer(const TransformerOptions& options, std::int64_t max_steps)
      : options_(options),
        max_steps_(max_steps),
        position_code_TD_(register_buffer("position_code", sinusoidal_code(max_steps, options.width))),
        blocks_(register_module("blocks", torch::nn::ModuleList())),
        norm_(register_module("norm", make_layer_norm(options.width))) {
    for (int layer = 0; layer < options.layers; ++layer)
      blocks_->push_back(std::make_shared<Block>(options, max_steps));
  }

  std::int64_t width() const override { return options_.width; }
  Support supports_learning(torch::ScalarType dtype, torch::Device device) const override {
    return cuda::supports_block(options_.width, options_.heads, dtype, device);
  }
  Support supports_step(torch::ScalarType dtype, torch::Device device) const override {
    if (Support own = cuda::supports_parameters(norm_->weight); !own) return own;
    return cuda::supports_step_of_heads(options_.width, options_.heads, dtype, device);
  }

  std::vector<double> added_scales(std::uint64_t seed) override {
    std::vector<double> scales;
    for (int layer = 0; layer < options_.layers; ++layer) scales.push_back(block(layer).added_scale(seed));
    return scales;
  }

  MemoryState initial_state(std::int64_t batch) const override {
    const auto options = position_code_TD_.options();
    MemoryState state;
    state.tensors.push_back(torch::zeros({batch}, options.dtype(torch::kInt64)));
    for (int i = 0; i < 2 * options_.layers; ++i)
      state.tensors.push_back(
          torch::zeros({batch, max_steps_, options_.heads, options_.width / options_.heads}, options));
    return state;
  }

 private:
  Output run(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B, Rows rows) override {
    const std::int64_t steps = input_BTD.size(1);
    const Tensor& position_B = initial.tensors[0];
    const Tensor next_B = position_B + lengths_B;
    std::int64_t max_position = 0;
    Tensor code = position_code_TD_.narrow(0, 0, std::min(steps, max_steps_));
    if (rows == Rows::kFresh) {
      check_bound(steps);
    } else {
      check_bound(next_B.max().item<std::int64_t>());
      max_position = position_B.max().item<std::int64_t>();
      const Tensor index_BT = position_B.unsqueeze(1) + torch::arange(steps, position_B.options());
      code = position_code_TD_.index({index_BT.clamp_max(max_steps_ - 1)});
    }

    const WindowPlan plan(max_steps_, steps, max_position, position_B, lengths_B, input_BTD.scalar_type());
    MemoryState final_state{{next_B}};
    Tensor x_BTD = input_BTD + code;
    for (int layer = 0; layer < options_.layers; ++layer)
      x_BTD = block(layer).run(x_BTD, [&](Attention& attention, const Tensor& normed_BTD) {
        return attention.forward(normed_BTD, plan, ring_of_layer(initial, layer), final_state.tensors);
      });
    return {norm_->forward(x_BTD), std::move(final_state)};
  }

  // Through the fused branches of the blocks.
  Tensor run_on_kernels(const Tensor& input_BTD, const Tensor& lengths_B) override {
    const FreshRows rows{input_BTD.size(0), input_BTD.size(1), lengths_B};
    check_bound(rows.steps);
    const Tensor x_BTD = cuda::rows_with_code(input_BTD, position_code_TD_.narrow(0, 0, rows.steps));
    std::vector<cuda::Residual> residuals;
    for (int layer = 0; layer < options_.layers; ++layer)
      block(layer).add_residuals(residuals, rows, input_BTD.device());
    return cuda::residual_blocks(x_BTD, /*input_dropout=*/{}, std::move(residuals), fused_norm(norm_));
  }

  Tensor run_step(const Tensor& input_BD, MemoryState& state) override { return take_step(input_BD, state, nullptr); }
  Tensor run_step_on_kernels(const Tensor& input_BD, MemoryState& state, torch::ScalarType dtype) override {
    const Tensor& position_B = state.tensors[0];
    std::vector<cuda::ForwardResidual> residuals;
    for (int layer = 0; layer < options_.layers; ++layer)
      block(layer).add_step_residuals(residuals, position_B, ring_of_layer(state, layer));
    const Tensor output_BD = cuda::forward_residual_blocks(with_code(input_BD, position_B), dtype,
                                                           /*input_dropout=*/{}, residuals, fused_norm(norm_));
    state.tensors[0].add_(1);
    return output_BD;
  }
  Tensor run_viewed_step(const Tensor& input_BD, MemoryState& state, MemoryView& view) override {
    return take_step(input_BD, state, &view);
  }

  // On a GPU nothing waits for it, so that a graph may capture the step; a step beyond the cache fails there in the
  // look-up of the position code, as an index out of bounds. `view`: null or filled.
  Tensor take_step(const Tensor& input_BD, MemoryState& state, MemoryView* view) {
    if (view != nullptr) view->layers.assign(static_cast<std::size_t>(options_.layers), {});
    const Tensor& position_B = state.tensors[0];
    // Dropout numbers the weights by the slots of the whole cache, used or not.
    std::int64_t slots = max_steps_;
    if (!position_B.is_cuda()) {
      const std::int64_t used = position_B.max().item<std::int64_t>() + 1;
      check_bound(used);
      if (options_.dropout == 0 || !is_training()) slots = used;
    }
    const WindowStepPlan plan(max_steps_, slots, position_B, input_BD.scalar_type());
    Tensor x_BD = with_code(input_BD, position_B);
    for (int layer = 0; layer < options_.layers; ++layer)
      x_BD = block(layer).run(x_BD, [&](Attention& attention, const Tensor& normed_BD) {
        return attention.step(normed_BD, plan, ring_of_layer(state, layer),
                              view == nullptr ? nullptr : &view->layers[static_cast<std::size_t>(layer)]);
      });
    state.tensors[0].add_(1);
    return norm_->forward(x_BD);
  }

  Tensor with_code(const Tensor& input_BD, const Tensor& position_B) const {
    return input_BD + position_code_TD_.index_select(0, position_B);
  }

  std::int64_t multiply_adds_per_step() const override {
    const std::int64_t width = options_.width;
    return options_.layers * (4 * width * width + 2 * width * max_steps_) + multiply_adds_of(mlp_parameters());
  }
  std::vector<Tensor> mlp_parameters() const override { return mlp_parameters_of<Block>(blocks_); }

  void check_bound(std::int64_t steps) const {
    if (steps > max_steps_)
      throw UserError("a sequence of " + std::to_string(steps) + " steps exceeds the transformer's cache of " +
                      std::to_string(max_steps_) + "; build it for longer episodes");
  }

  Block& block(int layer) { return blocks_->at<Block>(static_cast<std::size_t>(layer)); }

  TransformerOptions options_;
  std::int64_t max_steps_;
  Tensor position_code_TD_;
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm norm_;
};

}  // namespace

void TransformerOptions::list_options(OptionList& list) {
  list_sizes(list, *this, "4 times the width");
  list_dropout(list, dropout);
  list_first_values(list, first_values);
}

void TransformerOptions::check() const {
  check_bounds(*this, kMemorySection);
  check_heads(width, heads);
}

std::shared_ptr<SequenceModel> TransformerOptions::make(std::int64_t max_steps) const {
  check();
  return std::make_shared<Transformer>(*this, max_steps);
}

}  // namespace engram
