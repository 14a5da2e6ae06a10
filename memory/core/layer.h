// A layer of a BlockStack, behind one interface: its mixer, whatever the mixer's type is.
//
// What a Mixer is: a module whose options have width, layers, heads, inner_width(), dropout, weight_std, output_weights
// and first_values. output_parameters(): those in which its output is linear, all of it. One whose first weights depend
// on the layer's place takes its number, too: 0 .. options.layers - 1 from the input on. Plan and StepPlan hold what
// the layers of a call share; kCountsSteps says whether the mixer needs the position of each row, or
// counts_steps(options) where that depends on them; state_shapes() are of one row and layer. `view` is null, or a
// LayerView to fill; where a mixer leaves it empty, it gets the first part of the state.
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/support.h"
#include "memory/core/backbone_options.h"
#include "memory/core/memory_view.h"
#include "memory/fused/block.h"
#include "nn/fused/residual_blocks.h"
#include "nn/layers/layers.h"

namespace engram {

// Where the rows of one forward() stand in time. The positions are undefined and 0 unless a mixer counts steps.
struct Span {
  std::int64_t steps;
  torch::Tensor lengths_B;
  torch::Tensor position_B;   // steps taken before
  std::int64_t max_position;  // none is larger; 0 says that all rows are fresh
  torch::ScalarType dtype;
  // All rows are fresh and nobody takes their state in the end: it may be anything.
  bool forgets = false;

  // The lengths, where somebody takes the rows' state in the end; else undefined.
  torch::Tensor kept_lengths_B() const { return forgets ? torch::Tensor() : lengths_B; }
};

// The position of each step of a call: [B, T], or [1, T] if all rows are fresh.
inline torch::Tensor step_positions(const Span& span) {
  const torch::Tensor step_1T = torch::arange(span.steps, span.position_B.options()).unsqueeze(0);
  return span.max_position == 0 ? step_1T : span.position_B.unsqueeze(1) + step_1T;
}

template <class Mixer>
concept BlockMixer = std::derived_from<Mixer, torch::nn::Module> &&
    (std::constructible_from<Mixer, const typename Mixer::Options&> ||
     std::constructible_from<Mixer, const typename Mixer::Options&, int>)&&std::
        constructible_from<typename Mixer::Plan, const typename Mixer::Options&, const Span&>&& std::constructible_from<
            typename Mixer::StepPlan, const typename Mixer::Options&, const torch::Tensor&,
            torch::ScalarType>&& requires(Mixer mixer, const typename Mixer::Options& options, const torch::Tensor& x,
                                          const typename Mixer::Plan& plan, const typename Mixer::StepPlan& step_plan,
                                          std::span<const torch::Tensor> state, std::vector<torch::Tensor>& final_state,
                                          LayerView* view) {
  { Mixer::state_shapes(options) } -> std::same_as<std::vector<std::vector<std::int64_t>>>;
  { Mixer::multiply_adds_per_step(options) } -> std::same_as<std::int64_t>;
  { mixer.forward(x, plan, state, final_state) } -> std::same_as<torch::Tensor>;
  { mixer.step(x, step_plan, state, view) } -> std::same_as<torch::Tensor>;
  { mixer.output_parameters() } -> std::same_as<std::vector<torch::Tensor>>;
  { options.inner_width() } -> std::convertible_to<std::int64_t>;
};

// The plans of a mixer to which only the rows' lengths matter.
struct LengthsPlan {
  template <class Options>
  LengthsPlan(const Options&, const Span& span) : lengths_B(span.lengths_B), forgets(span.forgets) {}
  torch::Tensor lengths_B;
  bool forgets;
};
struct EmptyStepPlan {
  template <class Options>
  EmptyStepPlan(const Options&, const torch::Tensor&, torch::ScalarType) {}
};

// A mixer may also say, of its options: static Support supports_learning(options), why there are no kernels for
// learning with them.

// A mixer with kernels of its own for learning: itself as a residual branch, where the kernels take its options.
template <class Mixer>
concept FusedMixer = BlockMixer<Mixer> && requires(const Mixer mixer, const FreshRows& rows, torch::Device device) {
  { mixer.branch(rows, device) } -> std::same_as<std::unique_ptr<cuda::Branch>>;
};

// A mixer with kernels of its own for a step: the step of rows at `position_B`, undefined where no layer counts steps,
// as a residual branch, where the kernels take its options.
template <class Mixer>
concept SteppedMixer = BlockMixer<Mixer> &&
    requires(const Mixer mixer, const typename Mixer::Options& options, torch::ScalarType dtype, torch::Device device,
             const torch::Tensor& position_B, std::span<const torch::Tensor> state) {
  { Mixer::supports_step(options, dtype, device) } -> std::same_as<Support>;
  { mixer.step_branch(position_B, state) } -> std::same_as<std::unique_ptr<cuda::ForwardBranch>>;
};

// A mixer that has a branch has it as FusedMixer says, and a step's as SteppedMixer does: with another signature it
// would go unseen, and the mixer without its kernels.
template <class Mixer>
concept HasBranch = requires {
  &Mixer::branch;
};
template <class Mixer>
concept HasStepBranch = requires {
  &Mixer::step_branch;
};

class Layer {
 public:
  // What layers with the same settings() share in one call.
  struct Plan {
    virtual ~Plan() = default;
  };

  virtual ~Layer() = default;

  virtual std::shared_ptr<torch::nn::Module> module() const = 0;
  // What the mixer adds is multiplied by whatever all of these are.
  virtual std::vector<torch::Tensor> output_parameters() const = 0;
  virtual std::string name() const = 0;
  // Equal for layers that were made from the same options object.
  virtual const void* settings() const = 0;
  virtual bool counts_steps() const = 0;
  virtual std::vector<std::vector<std::int64_t>> state_shapes() const = 0;
  virtual std::int64_t multiply_adds_per_step() const = 0;

  virtual std::unique_ptr<Plan> plan(const Span& span) const = 0;
  virtual std::unique_ptr<Plan> step_plan(const torch::Tensor& position_B, torch::ScalarType dtype) const = 0;
  virtual torch::Tensor forward(const torch::Tensor& x_BTD, const Plan& plan, std::span<const torch::Tensor> state,
                                std::vector<torch::Tensor>& final_state) = 0;
  virtual torch::Tensor step(const torch::Tensor& x_BD, const Plan& plan, std::span<const torch::Tensor> state,
                             LayerView* view) = 0;

  // The mixer as a residual branch on a GPU; where supports_learning() allows it.
  virtual Support supports_learning(torch::ScalarType dtype, torch::Device device) const = 0;
  virtual std::unique_ptr<cuda::Branch> branch(const FreshRows& rows, torch::Device device) const = 0;
  // The mixer's step as one, which writes into `state`; where supports_step() allows it.
  virtual Support supports_step(torch::ScalarType dtype, torch::Device device) const = 0;
  virtual std::unique_ptr<cuda::ForwardBranch> step_branch(const torch::Tensor& position_B,
                                                           std::span<const torch::Tensor> state) const = 0;
};

template <BlockMixer Mixer>
class LayerOf final : public Layer {
  static_assert(!HasBranch<Mixer> || FusedMixer<Mixer>, "branch() has another signature than FusedMixer asks for");
  static_assert(!HasStepBranch<Mixer> || SteppedMixer<Mixer>,
                "step_branch() or supports_step() has another signature than SteppedMixer asks for");

 public:
  using Options = typename Mixer::Options;

  LayerOf(std::shared_ptr<const Options> options, int number)
      : options_(std::move(options)), mixer_(make_mixer(*options_, number)) {}

  std::shared_ptr<torch::nn::Module> module() const override { return mixer_; }
  std::vector<torch::Tensor> output_parameters() const override { return mixer_->output_parameters(); }
  std::string name() const override { return Options::kName; }
  const void* settings() const override { return options_.get(); }
  bool counts_steps() const override {
    if constexpr (requires { Mixer::counts_steps(*options_); })
      return Mixer::counts_steps(*options_);
    else
      return Mixer::kCountsSteps;
  }
  std::vector<std::vector<std::int64_t>> state_shapes() const override { return Mixer::state_shapes(*options_); }
  std::int64_t multiply_adds_per_step() const override { return Mixer::multiply_adds_per_step(*options_); }

  std::unique_ptr<Plan> plan(const Span& span) const override {
    return std::make_unique<PlanOf<typename Mixer::Plan>>(*options_, span);
  }
  std::unique_ptr<Plan> step_plan(const torch::Tensor& position_B, torch::ScalarType dtype) const override {
    return std::make_unique<PlanOf<typename Mixer::StepPlan>>(*options_, position_B, dtype);
  }
  torch::Tensor forward(const torch::Tensor& x_BTD, const Plan& plan, std::span<const torch::Tensor> state,
                        std::vector<torch::Tensor>& final_state) override {
    return mixer_->forward(x_BTD, own<typename Mixer::Plan>(plan), state, final_state);
  }
  torch::Tensor step(const torch::Tensor& x_BD, const Plan& plan, std::span<const torch::Tensor> state,
                     LayerView* view) override {
    torch::Tensor output_BD = mixer_->step(x_BD, own<typename Mixer::StepPlan>(plan), state, view);
    if (view != nullptr && view->empty()) view->states = {state_view("state", state[0])};
    return output_BD;
  }

  Support supports_learning(torch::ScalarType dtype, torch::Device device) const override {
    if constexpr (requires { Mixer::supports_learning(*options_); })
      if (const Support own = Mixer::supports_learning(*options_); !own) return own;
    if constexpr (FusedMixer<Mixer>) return cuda::supports_block(options_->width, options_->heads, dtype, device);
    return Support::no("it has no kernels of its own");
  }
  std::unique_ptr<cuda::Branch> branch(const FreshRows& rows, torch::Device device) const override {
    if constexpr (FusedMixer<Mixer>)
      return mixer_->branch(rows, device);
    else
      throw std::logic_error(name() + " has no kernels of its own");
  }

  Support supports_step(torch::ScalarType dtype, torch::Device device) const override {
    if constexpr (SteppedMixer<Mixer>) return Mixer::supports_step(*options_, dtype, device);
    return Support::no("its step has no kernels of its own");
  }
  std::unique_ptr<cuda::ForwardBranch> step_branch(const torch::Tensor& position_B,
                                                   std::span<const torch::Tensor> state) const override {
    if constexpr (SteppedMixer<Mixer>)
      return mixer_->step_branch(position_B, state);
    else
      throw std::logic_error("the step of " + name() + " has no kernels of its own");
  }

 private:
  static std::shared_ptr<Mixer> make_mixer(const Options& options, int number) {
    if constexpr (std::constructible_from<Mixer, const Options&, int>)
      return std::make_shared<Mixer>(options, number);
    else
      return std::make_shared<Mixer>(options);
  }

  template <class OfMixer>
  struct PlanOf final : Plan {
    template <class... Arguments>
    explicit PlanOf(const Arguments&... arguments) : plan(arguments...) {}
    OfMixer plan;
  };
  // Of a plan that a layer with these settings has made.
  template <class OfMixer>
  static const OfMixer& own(const Plan& plan) {
    return static_cast<const PlanOf<OfMixer>&>(plan).plan;
  }

  std::shared_ptr<const Options> options_;
  std::shared_ptr<Mixer> mixer_;
};

// How a layer is to be made, with what its block has beside the mixer. Layers of one LayerSpec share their plans.
struct LayerSpec {
  std::int64_t width, inner_width;
  double dropout;
  FirstWeights first_weights;
  FirstValues first_values;
  std::function<std::unique_ptr<Layer>(int number)> make;  // of the layer in its stack, from 0
};

// The first weights that the options of a stack ask for.
template <class Options>
FirstWeights first_weights(const Options& options) {
  return {options.weight_std, options.output_weights == OutputWeights::kKaiming, options.layers};
}

template <BlockMixer Mixer>
LayerSpec layer_spec(const typename Mixer::Options& options) {
  const auto shared = std::make_shared<const typename Mixer::Options>(options);
  return {options.width,        options.inner_width(),
          options.dropout,      first_weights(options),
          options.first_values, [shared](int number) { return std::make_unique<LayerOf<Mixer>>(shared, number); }};
}

}  // namespace engram
