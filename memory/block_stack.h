// The block of DeltaNet and HQLT ("Transformer++" shape) and the stack of blocks that is a whole backbone:
//   x <- x + Mixer(RMSNorm(x)),   x <- x + SwiGLU(RMSNorm(x)),   and one more RMSNorm after the last block.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "memory/backbone_options.h"
#include "memory/fused_mixer.h"
#include "memory/sequence_model.h"
#include "nn/dropout.h"
#include "nn/fused_swiglu.h"
#include "nn/layers.h"

namespace engram {

// Where the rows of one forward() stand in time. The positions are undefined and 0 unless the mixer counts steps.
struct Span {
  std::int64_t steps;
  torch::Tensor lengths_B;
  torch::Tensor position_B;   // steps taken before
  std::int64_t max_position;  // none is larger; 0 says that all rows are fresh
  torch::ScalarType dtype;
};

// The first weights that the options of a stack ask for.
template <class Options>
FirstWeights first_weights(const Options& options) {
  return {options.weight_std, options.output_weights == OutputWeights::kKaiming, options.layers};
}

// What a Mixer is: a module whose options have width, layers, heads, inner_width(), dropout, weight_std and
// output_weights. Plan and StepPlan hold what the layers of a call share; kCountsSteps says whether the state begins
// with the position of each row; state_shapes() are of one row and layer. `view` is null, or a LayerView to fill.
template <class Mixer>
concept BlockMixer = std::derived_from<Mixer, torch::nn::Module> &&
    std::constructible_from<Mixer, const typename Mixer::Options&> &&
    std::constructible_from<typename Mixer::Plan, const typename Mixer::Options&, const Span&> &&
    std::constructible_from<typename Mixer::StepPlan, const typename Mixer::Options&, const torch::Tensor&,
                            torch::ScalarType> &&
    requires(Mixer mixer, const typename Mixer::Options& options, const torch::Tensor& x,
             const typename Mixer::Plan& plan, const typename Mixer::StepPlan& step_plan,
             std::span<const torch::Tensor> state, std::vector<torch::Tensor>& final_state, LayerView* view) {
  { Mixer::kCountsSteps } -> std::convertible_to<bool>;
  { Mixer::state_shapes(options) } -> std::same_as<std::vector<std::vector<std::int64_t>>>;
  { Mixer::multiply_adds_per_step(options) } -> std::same_as<std::int64_t>;
  { mixer.forward(x, plan, state, final_state) } -> std::same_as<torch::Tensor>;
  { mixer.step(x, step_plan, state, view) } -> std::same_as<torch::Tensor>;
  { options.inner_width() } -> std::convertible_to<std::int64_t>;
};

// A mixer without kernels for learning may say why: static Support learning_kernels(options). One whose steps have
// nothing to show says so: static bool shows_memory(options).
// A mixer with kernels of its own for learning: its weights, and its own part of the settings.
template <class Mixer>
concept FusedMixer = BlockMixer<Mixer> &&
    requires(const Mixer mixer, fused::MixerSettings& settings, torch::Device device) {
  { mixer.fused_weights(settings, device) } -> std::same_as<fused::MixerWeights>;
};

// A backbone of blocks around a mixer.
template <BlockMixer Mixer>
class BlockStack final : public SequenceModel {
 public:
  using Options = typename Mixer::Options;

  explicit BlockStack(const Options& options)
      : options_(options),
        input_dropout_(register_module("input_dropout", std::make_shared<Dropout>(options.dropout))),
        blocks_(register_module("blocks", torch::nn::ModuleList())),
        norm_(register_module("norm", std::make_shared<RmsNorm>(options.width))) {
    for (int layer = 0; layer < options.layers; ++layer) blocks_->push_back(std::make_shared<Block>(options));
  }

  std::int64_t width() const override { return options_.width; }
  bool shows_memory() const override {
    if constexpr (requires { Mixer::shows_memory(options_); }) return Mixer::shows_memory(options_);
    return true;
  }

  Support learning_kernels(torch::ScalarType dtype, torch::Device device) const override {
    if constexpr (FusedMixer<Mixer>) return fused::block_support(options_.width, options_.heads, dtype, device);
    if constexpr (requires { Mixer::learning_kernels(options_); }) return Mixer::learning_kernels(options_);
    return SequenceModel::learning_kernels(dtype, device);
  }
  Support fastest_kernels(torch::ScalarType dtype, torch::Device device) const override {
    if (Support own = learning_kernels(dtype, device); !own) return own;
    const Support swiglu = fused::one_kernel_swiglu_support(options_.width, options_.inner_width(), dtype, device);
    return swiglu ? swiglu : Support::no("SwiGLU as products: " + swiglu.reason());
  }

  MemoryState initial_state(std::int64_t batch) const override {
    const auto tensor_options = parameters().front().options().requires_grad(false);
    MemoryState state;
    if constexpr (Mixer::kCountsSteps)
      state.tensors.push_back(torch::zeros({batch}, tensor_options.dtype(torch::kInt64)));
    for (int layer = 0; layer < options_.layers; ++layer)
      for (std::vector<std::int64_t> shape : Mixer::state_shapes(options_)) {
        shape.insert(shape.begin(), batch);
        state.tensors.push_back(torch::zeros(shape, tensor_options));
      }
    return state;
  }

 private:
  struct Block : torch::nn::Module {
    explicit Block(const Options& options)
        : mixer_norm(register_module("mixer_norm", std::make_shared<RmsNorm>(options.width))),
          mixer(register_module("mixer", std::make_shared<Mixer>(options))),
          mlp_norm(register_module("mlp_norm", std::make_shared<RmsNorm>(options.width))),
          mlp(register_module("mlp",
                              std::make_shared<SwiGlu>(options.width, options.inner_width(), first_weights(options)))),
          mixer_dropout(register_module("mixer_dropout", std::make_shared<Dropout>(options.dropout))),
          mlp_dropout(register_module("mlp_dropout", std::make_shared<Dropout>(options.dropout))) {}

    // mix: the mixer over sequences or over one step.
    template <class Mix>
    torch::Tensor run(const torch::Tensor& x, Mix mix) {
      const torch::Tensor mixed = x + mixer_dropout->forward(mix(*mixer, mixer_norm->forward(x)));
      return mixed + mlp_dropout->forward(mlp->forward(mlp_norm->forward(mixed)));
    }

    std::shared_ptr<RmsNorm> mixer_norm;
    std::shared_ptr<Mixer> mixer;
    std::shared_ptr<RmsNorm> mlp_norm;
    std::shared_ptr<SwiGlu> mlp;
    std::shared_ptr<Dropout> mixer_dropout, mlp_dropout;
  };

  Output run(const torch::Tensor& input_BTD, const MemoryState& initial, const torch::Tensor& lengths_B,
             Rows rows) override {
    Span span{input_BTD.size(1), lengths_B, {}, 0, input_BTD.scalar_type()};
    MemoryState final_state;
    if constexpr (Mixer::kCountsSteps) {
      span.position_B = initial.tensors[0];
      if (rows == Rows::kCarried) span.max_position = span.position_B.max().template item<std::int64_t>();
      final_state.tensors.push_back(span.position_B + lengths_B);
    }
    const typename Mixer::Plan plan(options_, span);
    torch::Tensor x_BTD = input_dropout_->forward(input_BTD);
    for (int layer = 0; layer < options_.layers; ++layer)
      x_BTD = block(layer).run(x_BTD, [&](Mixer& mixer, const torch::Tensor& normed_BTD) {
        return mixer.forward(normed_BTD, plan, layer_state(initial, layer), final_state.tensors);
      });
    return {norm_->forward(x_BTD), std::move(final_state)};
  }

  // Through the fused branches of the blocks.
  torch::Tensor run_on_kernels(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B) override {
    if constexpr (FusedMixer<Mixer>) return run_fused(input_BTD, lengths_B);
    return SequenceModel::run_on_kernels(input_BTD, lengths_B);
  }

  torch::Tensor run_fused(const torch::Tensor& input_BTD, const torch::Tensor& lengths_B) requires FusedMixer<Mixer> {
    const torch::Device device = input_BTD.device();
    fused::MixerSettings settings{};
    settings.batch = input_BTD.size(0);
    settings.steps = input_BTD.size(1);
    settings.width = options_.width;
    settings.heads = options_.heads;
    settings.lengths_B = lengths_B;
    settings.length_B = lengths_B.to(torch::kInt32);
    std::vector<fused::Residual> residuals;
    for (int layer = 0; layer < options_.layers; ++layer) {
      const Block& own = block(layer);
      const fused::MixerWeights weights = own.mixer->fused_weights(settings, device);
      residuals.push_back(
          {own.mixer_norm->weight(), fused::mixer_branch(weights, settings), own.mixer_dropout->key(device)});
      residuals.push_back({own.mlp_norm->weight(),
                           fused::swiglu_branch(own.mlp->fused_weights(), input_BTD.scalar_type()),
                           own.mlp_dropout->key(device)});
    }
    return fused::residual_stack(input_BTD, input_dropout_->key(device), std::move(residuals), norm_->weight());
  }

  torch::Tensor run_step(const torch::Tensor& input_BD, MemoryState& state) override {
    return take_step(input_BD, state, nullptr);
  }
  torch::Tensor run_viewed_step(const torch::Tensor& input_BD, MemoryState& state, MemoryView& view) override {
    return shows_memory() ? take_step(input_BD, state, &view) : SequenceModel::run_viewed_step(input_BD, state, view);
  }

  // `view`: null or filled.
  torch::Tensor take_step(const torch::Tensor& input_BD, MemoryState& state, MemoryView* view) {
    if (view != nullptr) view->layers.assign(static_cast<std::size_t>(options_.layers), {});
    const torch::Tensor position_B = Mixer::kCountsSteps ? state.tensors[0] : torch::Tensor();
    const typename Mixer::StepPlan plan(options_, position_B, input_BD.scalar_type());
    torch::Tensor x_BD = input_dropout_->forward(input_BD);
    for (int layer = 0; layer < options_.layers; ++layer)
      x_BD = block(layer).run(x_BD, [&](Mixer& mixer, const torch::Tensor& normed_BD) {
        return mixer.step(normed_BD, plan, layer_state(state, layer),
                          view == nullptr ? nullptr : &view->layers[static_cast<std::size_t>(layer)]);
      });
    if constexpr (Mixer::kCountsSteps) state.tensors[0].add_(1);
    return norm_->forward(x_BD);
  }

  std::int64_t multiply_adds_per_step() const override {
    return options_.layers * Mixer::multiply_adds_per_step(options_) + multiply_adds_of(mlp_parameters());
  }

  std::vector<torch::Tensor> mlp_parameters() const override {
    std::vector<torch::Tensor> all;
    for (const auto& child : *blocks_) {
      const std::vector<torch::Tensor> own = child->template as<Block>()->mlp->parameters();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  Block& block(int layer) { return blocks_->at<Block>(static_cast<std::size_t>(layer)); }

  std::span<const torch::Tensor> layer_state(const MemoryState& state, int layer) const {
    const std::size_t count = Mixer::state_shapes(options_).size();
    return std::span(state.tensors)
        .subspan((Mixer::kCountsSteps ? 1 : 0) + static_cast<std::size_t>(layer) * count, count);
  }

  Options options_;
  std::shared_ptr<Dropout> input_dropout_;
  torch::nn::ModuleList blocks_;
  std::shared_ptr<RmsNorm> norm_;
};

}  // namespace engram
