// IndRNN (Li et al. 2018, arXiv:1803.04831, equation 4), layer by layer,
//   h_t = relu(W x_t + b + u h_{t-1}),   |u| <= 2^(1 / longest),
// u a number a channel. POPGym's code has two biases in each layer, which are only ever added: here they are one, whose
// first value is the sum of the two. As there, u is put back between its bounds where gradients begin to be recorded.
#include "memory/backbones/recurrent/ind_rnn.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/core/sequence_model.h"
#include "memory/ops/recurrences/linear_recurrence.h"
#include "memory/ops/recurrences/relu_recurrence.h"
#include "nn/layers/layers.h"

namespace engram {
namespace {

using torch::Tensor;

class IndRnnLayer : public torch::nn::Module {
 public:
  IndRnnLayer(std::int64_t width, double bound)
      : bound_(bound),
        input_(register_module("input", torch::nn::Linear(width, width))),
        recurrent_D_(register_parameter("recurrent", torch::rand({width}))) {
    const torch::NoGradGuard no_grad;
    input_->bias.add_(torch::rand({width}));
  }

  // In the recurrent weights' type, that of the state.
  Tensor of_input(const Tensor& x) { return apply_linear(input_, x).to(recurrent_D_.scalar_type()); }
  Tensor recurrent_weight() const { return recurrent_D_.clamp(-bound_, bound_); }
  // Of the parameter itself: beside what autograd records, as it is no part of the function that is differentiated.
  void put_back() { recurrent_D_.variable_data().clamp_(-bound_, bound_); }

 private:
  double bound_;
  torch::nn::Linear input_;
  Tensor recurrent_D_;
};

class IndRnn final : public SequenceModel {
 public:
  explicit IndRnn(const IndRnnOptions& options) : width_(options.width) {
    const auto list = register_module("layers", torch::nn::ModuleList());
    for (int layer = 0; layer < options.layers; ++layer) {
      layers_.push_back(std::make_shared<IndRnnLayer>(width_, std::exp2(1.0 / options.longest)));
      list->push_back(layers_.back());
    }
  }

  std::int64_t width() const override { return width_; }

  Support supports_learning(torch::ScalarType, torch::Device) const override {
    return Support::no("only its recurrence has kernels");
  }

  MemoryState initial_state(std::int64_t batch) const override {
    const auto options = parameters().front().options().requires_grad(false);
    return {{torch::zeros({batch, static_cast<std::int64_t>(layers_.size()), width_}, options)}};
  }

 private:
  Output run(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B, Rows) override {
    Tensor x_BTD = input_BTD;
    std::vector<Tensor> final_states;
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      IndRnnLayer& own = *layers_[layer];
      if (torch::GradMode::is_enabled()) own.put_back();
      const Tensor weight_D = own.recurrent_weight();
      const Tensor before_BD = initial.tensors[0].select(1, static_cast<std::int64_t>(layer));
      x_BTD = relu_recurrence(weight_D, own.of_input(x_BTD), before_BD);
      final_states.push_back(state_after(x_BTD, before_BD, lengths_B));
    }
    return {x_BTD, {{torch::stack(final_states, 1)}}};
  }

  Tensor run_step(const Tensor& input_BD, MemoryState& state) override {
    Tensor x_BD = input_BD;
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      IndRnnLayer& own = *layers_[layer];
      Tensor h_BD = state.tensors[0].select(1, static_cast<std::int64_t>(layer));
      x_BD = torch::relu(torch::addcmul(own.of_input(x_BD), own.recurrent_weight(), h_BD));
      h_BD.copy_(x_BD);
    }
    return x_BD;
  }

  Tensor run_viewed_step(const Tensor& input_BD, MemoryState& state, MemoryView& view) override {
    Tensor output_BD = run_step(input_BD, state);
    view.layers.assign(layers_.size(), {});
    for (std::size_t layer = 0; layer < layers_.size(); ++layer)
      view.layers[layer].states = {state_view("hidden", state.tensors[0].select(1, static_cast<std::int64_t>(layer)))};
    return output_BD;
  }

  std::int64_t multiply_adds_per_step() const override {
    return multiply_adds_of(parameters()) + static_cast<std::int64_t>(layers_.size()) * width_;
  }

  std::int64_t width_;
  std::vector<std::shared_ptr<IndRnnLayer>> layers_;
};

}  // namespace

void IndRnnOptions::list_options(OptionList& list) {
  list_width(list, width);
  list_layers(list, layers);
  list.add("longest", longest, {1, 1 << 24},
           "steps over which a channel by itself grows by no more than a factor of 2");
}

void IndRnnOptions::check() const { check_bounds(*this, kMemorySection); }

std::shared_ptr<SequenceModel> IndRnnOptions::make(std::int64_t) const {
  check();
  return std::make_shared<IndRnn>(*this);
}

}  // namespace engram
