#include "memory/core/block_stack.h"

#include <cstddef>
#include <utility>

#include "memory/core/first_scale.h"
#include "memory/fused/block.h"
#include "nn/fused/autograd_branch.h"
#include "nn/fused/support.h"
#include "nn/fused/swiglu.h"

namespace engram {

using torch::Tensor;

class BlockStack::Block : public torch::nn::Module {
 public:
  Block(const LayerSpec& spec, int number)
      : inner_width_(spec.inner_width),
        mixer_norm_(register_module("mixer_norm", std::make_shared<RmsNorm>(spec.width))),
        layer_(spec.make(number)) {
    register_module("mixer", layer_->module());
    mlp_norm_ = register_module("mlp_norm", std::make_shared<RmsNorm>(spec.width));
    mlp_ = register_module("mlp", std::make_shared<SwiGlu>(spec.width, spec.inner_width, spec.first_weights));
    mixer_dropout_ = register_module("mixer_dropout", std::make_shared<Dropout>(spec.dropout));
    mlp_dropout_ = register_module("mlp_dropout", std::make_shared<Dropout>(spec.dropout));
    if (spec.first_values == FirstValues::kCommon)
      bring_to_common_scale(*layer_->module(), layer_->output_parameters(), spec.width, kScaleSteps, mix_fresh());
  }

  double added_scale(std::uint64_t seed) {
    return engram::added_scale(*layer_->module(), mixer_norm_->weight().size(0), kScaleSteps, mix_fresh(), seed);
  }

  // mix: the mixer over sequences or over one step.
  template <class Mix>
  Tensor run(const Tensor& x, Mix mix) {
    const Tensor mixed = mixer_dropout_->add(x, mix(*layer_, mixer_norm_->forward(x)));
    return mlp_dropout_->add(mixed, mlp_->forward(mlp_norm_->forward(mixed)));
  }

  // What run() adds, over fresh sequences, with the mixer as a branch.
  void add_residuals(std::vector<cuda::Residual>& residuals, std::unique_ptr<cuda::Branch> mixer, torch::Device device,
                     torch::ScalarType dtype) const {
    residuals.push_back({mixer_norm_->weight(), std::move(mixer), mixer_dropout_->key(device)});
    residuals.push_back(
        {mlp_norm_->weight(), cuda::swiglu_branch(mlp_->fused_weights(), dtype), mlp_dropout_->key(device)});
  }

  // The mixer as a branch that LibTorch's operations define.
  std::unique_ptr<cuda::Branch> recorded_mixer(const FreshRows& rows, std::shared_ptr<const Layer::Plan> plan,
                                               std::span<const Tensor> state) const {
    const auto mix = [&layer = *layer_, plan = std::move(plan),
                      state = std::vector(state.begin(), state.end())](const Tensor& x_BTD) {
      std::vector<Tensor> final_state;
      return layer.forward(x_BTD, *plan, state, final_state);
    };
    return cuda::autograd_branch(layer_->module()->parameters(),
                                 {rows.batch, rows.steps, mixer_norm_->weight().size(0)}, mix);
  }

  // The mixer's step as a branch that LibTorch's operations define.
  std::unique_ptr<cuda::ForwardBranch> called_step(std::shared_ptr<const Layer::Plan> plan,
                                                   std::span<const Tensor> state) const {
    return cuda::operations_branch(mixer_norm_->weight().size(0),
                                   [&layer = *layer_, plan = std::move(plan), state](const Tensor& x_BD) {
                                     return layer.step(x_BD, *plan, state, /*view=*/nullptr);
                                   });
  }

  // What run() adds, of one step, with the mixer as a branch.
  void add_step_residuals(std::vector<cuda::ForwardResidual>& residuals, std::unique_ptr<cuda::ForwardBranch> mixer,
                          torch::Device device, torch::ScalarType dtype) const {
    residuals.push_back({mixer_norm_->weight(), std::move(mixer), mixer_dropout_->key(device)});
    residuals.push_back(
        {mlp_norm_->weight(), cuda::swiglu_branch(mlp_->fused_weights(), dtype), mlp_dropout_->key(device)});
  }

  const Layer& layer() const { return *layer_; }
  std::int64_t inner_width() const { return inner_width_; }
  std::vector<Tensor> mlp_parameters() const { return mlp_->parameters(); }

 private:
  Mix mix_fresh() {
    return [this](const Tensor& x_BTD, const Tensor& lengths_B) {
      std::vector<Tensor> state, final_state;
      for (std::vector<std::int64_t> shape : layer_->state_shapes()) {
        shape.insert(shape.begin(), x_BTD.size(0));
        state.push_back(torch::zeros(shape, x_BTD.options()));
      }
      const Span span{x_BTD.size(1), lengths_B, torch::zeros_like(lengths_B), 0, x_BTD.scalar_type(), /*forgets=*/true};
      return layer_->forward(mixer_norm_->forward(x_BTD), *layer_->plan(span), state, final_state);
    };
  }

  std::int64_t inner_width_;
  std::shared_ptr<RmsNorm> mixer_norm_;
  std::unique_ptr<Layer> layer_;
  std::shared_ptr<RmsNorm> mlp_norm_;
  std::shared_ptr<SwiGlu> mlp_;
  std::shared_ptr<Dropout> mixer_dropout_, mlp_dropout_;
};

BlockStack::BlockStack(std::int64_t width, double input_dropout, const std::vector<LayerSpec>& layers)
    : width_(width), input_dropout_(register_module("input_dropout", std::make_shared<Dropout>(input_dropout))) {
  const auto list = register_module("blocks", torch::nn::ModuleList());
  for (const LayerSpec& spec : layers) {
    blocks_.push_back(std::make_shared<Block>(spec, static_cast<int>(blocks_.size())));
    list->push_back(blocks_.back());
    counts_steps_ = counts_steps_ || blocks_.back()->layer().counts_steps();
  }
  norm_ = register_module("norm", std::make_shared<RmsNorm>(width));
  first_state_.push_back(counts_steps_ ? 1 : 0);
  for (const auto& block : blocks_) first_state_.push_back(first_state_.back() + block->layer().state_shapes().size());
}

std::vector<double> BlockStack::added_scales(std::uint64_t seed) {
  std::vector<double> scales;
  for (const auto& block : blocks_) scales.push_back(block->added_scale(seed));
  return scales;
}

template <class SupportOf>
Support BlockStack::of_all_layers(SupportOf support_of) const {
  const Layer& first = blocks_.front()->layer();
  for (const auto& block : blocks_) {
    const Support own = support_of(block->layer());
    if (own) continue;
    return block->layer().name() == first.name() ? own : Support::no(block->layer().name() + ": " + own.reason());
  }
  return Support();
}

Support BlockStack::supports_learning(torch::ScalarType dtype, torch::Device device) const {
  return of_all_layers([&](const Layer& layer) { return layer.supports_learning(dtype, device); });
}

Support BlockStack::supports_blocks(torch::ScalarType dtype, torch::Device device) const {
  return cuda::supports_stack(width_, dtype, device);
}

Support BlockStack::supports_step(torch::ScalarType dtype, torch::Device device) const {
  if (Support own = supports_step_blocks(dtype, device); !own) return own;
  return of_all_layers([&](const Layer& layer) { return layer.supports_step(dtype, device); });
}

Support BlockStack::supports_step_blocks(torch::ScalarType dtype, torch::Device device) const {
  if (Support own = cuda::supports_parameters(norm_->weight()); !own) return own;
  return cuda::supports_stack(width_, dtype, device);
}

Support BlockStack::supports_fastest_learning(torch::ScalarType dtype, torch::Device device) const {
  if (Support own = supports_learning(dtype, device); !own) return own;
  for (const auto& block : blocks_)
    if (const Support swiglu = cuda::supports_one_kernel_swiglu(width_, block->inner_width(), dtype, device); !swiglu)
      return Support::no("SwiGLU as products: " + swiglu.reason());
  return Support();
}

MemoryState BlockStack::initial_state(std::int64_t batch) const {
  const auto options = parameters().front().options().requires_grad(false);
  MemoryState state;
  if (counts_steps_) state.tensors.push_back(torch::zeros({batch}, options.dtype(torch::kInt64)));
  for (const auto& block : blocks_)
    for (std::vector<std::int64_t> shape : block->layer().state_shapes()) {
      shape.insert(shape.begin(), batch);
      state.tensors.push_back(torch::zeros(shape, options));
    }
  return state;
}

template <class Make>
BlockStack::Plans BlockStack::plans(Make make) const {
  Plans all;
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    std::size_t same = 0;
    while (blocks_[same]->layer().settings() != blocks_[layer]->layer().settings()) ++same;
    all.push_back(same < layer ? all[same] : make(blocks_[layer]->layer()));
  }
  return all;
}

SequenceModel::Output BlockStack::run(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B,
                                      Rows rows) {
  return run_rows(input_BTD, initial, lengths_B, rows, /*forgets=*/false);
}

Tensor BlockStack::run_fresh(const Tensor& input_BTD, const Tensor& lengths_B) {
  return run_rows(input_BTD, initial_state(input_BTD.size(0)), lengths_B, Rows::kFresh, /*forgets=*/true).output_BTD;
}

SequenceModel::Output BlockStack::run_rows(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B,
                                           Rows rows, bool forgets) {
  const Span span = span_of(input_BTD.size(1), lengths_B, initial, rows, forgets);
  MemoryState final_state;
  if (counts_steps_) final_state.tensors.push_back(span.position_B + lengths_B);
  const Plans plan = plans([&](const Layer& layer) { return layer.plan(span); });
  Tensor x_BTD = input_dropout_->forward(input_BTD);
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    x_BTD = blocks_[i]->run(x_BTD, [&](Layer& layer, const Tensor& normed_BTD) {
      return layer.forward(normed_BTD, *plan[i], layer_state(initial, i), final_state.tensors);
    });
  return {norm_->forward(x_BTD), std::move(final_state)};
}

Span BlockStack::span_of(std::int64_t steps, const Tensor& lengths_B, const MemoryState& initial, Rows rows,
                         bool forgets) const {
  Span span{steps, lengths_B, {}, 0, norm_->weight().scalar_type(), forgets};
  if (!counts_steps_) return span;
  span.position_B = initial.tensors[0];
  if (rows == Rows::kCarried) span.max_position = span.position_B.max().item<std::int64_t>();
  return span;
}

Tensor BlockStack::run_on_kernels(const Tensor& input_BTD, const Tensor& lengths_B) {
  const FreshRows rows{input_BTD.size(0), input_BTD.size(1), lengths_B};
  const torch::Device device = input_BTD.device();
  const torch::ScalarType dtype = input_BTD.scalar_type();
  const auto by_kernels = [&](const Layer& layer) { return static_cast<bool>(layer.supports_learning(dtype, device)); };
  // Of the layers that are not.
  MemoryState initial;
  Plans plan(blocks_.size());
  if (!supports_learning(dtype, device)) {
    initial = initial_state(rows.batch);
    const Span span = span_of(rows.steps, lengths_B, initial, Rows::kFresh, /*forgets=*/true);
    plan = plans([&](const Layer& layer) { return by_kernels(layer) ? nullptr : layer.plan(span); });
  }
  std::vector<cuda::Residual> residuals;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = *blocks_[i];
    block.add_residuals(residuals,
                        by_kernels(block.layer()) ? block.layer().branch(rows, device)
                                                  : block.recorded_mixer(rows, plan[i], layer_state(initial, i)),
                        device, dtype);
  }
  return cuda::residual_blocks(input_BTD, input_dropout_->key(device), std::move(residuals), norm_->weight());
}

Tensor BlockStack::run_step(const Tensor& input_BD, MemoryState& state) { return take_step(input_BD, state, nullptr); }

Tensor BlockStack::run_step_on_kernels(const Tensor& input_BD, MemoryState& state, torch::ScalarType dtype) {
  const Tensor position_B = counts_steps_ ? state.tensors[0] : Tensor();
  const torch::Device device = input_BD.device();
  const auto by_kernels = [&](const Layer& layer) { return static_cast<bool>(layer.supports_step(dtype, device)); };
  const Plans plan = plans([&](const Layer& layer) {
    return by_kernels(layer) ? nullptr : layer.step_plan(position_B, norm_->weight().scalar_type());
  });
  std::vector<cuda::ForwardResidual> residuals;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = *blocks_[i];
    const std::span<const Tensor> own = layer_state(state, i);
    block.add_step_residuals(
        residuals,
        by_kernels(block.layer()) ? block.layer().step_branch(position_B, own) : block.called_step(plan[i], own),
        device, dtype);
  }
  const Tensor output_BD =
      cuda::forward_residual_blocks(input_BD, dtype, input_dropout_->key(device), residuals, norm_->weight());
  if (counts_steps_) state.tensors[0].add_(1);
  return output_BD;
}

Tensor BlockStack::run_viewed_step(const Tensor& input_BD, MemoryState& state, MemoryView& view) {
  return take_step(input_BD, state, &view);
}

Tensor BlockStack::take_step(const Tensor& input_BD, MemoryState& state, MemoryView* view) {
  if (view != nullptr) view->layers.assign(blocks_.size(), {});
  const Tensor position_B = counts_steps_ ? state.tensors[0] : Tensor();
  const Plans plan = plans([&](const Layer& layer) { return layer.step_plan(position_B, input_BD.scalar_type()); });
  Tensor x_BD = input_dropout_->forward(input_BD);
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    x_BD = blocks_[i]->run(x_BD, [&](Layer& layer, const Tensor& normed_BD) {
      return layer.step(normed_BD, *plan[i], layer_state(state, i), view == nullptr ? nullptr : &view->layers[i]);
    });
  if (counts_steps_) state.tensors[0].add_(1);
  return norm_->forward(x_BD);
}

std::int64_t BlockStack::multiply_adds_per_step() const {
  std::int64_t all = multiply_adds_of(mlp_parameters());
  for (const auto& block : blocks_) all += block->layer().multiply_adds_per_step();
  return all;
}

std::vector<Tensor> BlockStack::mlp_parameters() const {
  std::vector<Tensor> all;
  for (const auto& block : blocks_) {
    const std::vector<Tensor> own = block->mlp_parameters();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::span<const Tensor> BlockStack::layer_state(const MemoryState& state, std::size_t layer) const {
  return std::span(state.tensors).subspan(first_state_[layer], first_state_[layer + 1] - first_state_[layer]);
}

}  // namespace engram
