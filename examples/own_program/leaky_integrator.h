// Leaky integrators: exponential moving averages of a linear map of the input, each channel with a time constant of its
// own, read by relu. The control for what a memory is good for that averages.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>

#include "memory/core/backbone_options.h"
#include "memory/core/registry.h"
#include "memory/core/sequence_model.h"
#include "memory/ops/recurrences/linear_recurrence.h"

namespace engram {

struct LeakyIntegratorOptions {
  static constexpr const char* kName = "leaky_integrator";
  static constexpr const char* kSummary = "moving averages: a control";
  static constexpr const char* kSource = "none: a control, for what a memory is good for that averages";
  int width = 100;
  double longest = 100;  // steps

  void list_options(OptionList& list) {
    list_width(list, width);
    list.add("longest", longest, {1, 1e6}, "longest time constant at first, in steps; the shortest is 1");
  }
  void check() const { check_bounds(*this, kMemorySection); }
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

// h_t = a h_{t-1} + (1 - a) W x_t with a = exp(-exp(-log_time)), time the time constant; y_t = relu(h_t).
class LeakyIntegrator final : public SequenceModel {
 public:
  explicit LeakyIntegrator(const LeakyIntegratorOptions& options)
      : map_(register_module("map", torch::nn::Linear(options.width, options.width))),
        log_time_D_(register_parameter("log_time", torch::linspace(0, std::log(options.longest), options.width))) {}

  std::int64_t width() const override { return log_time_D_.size(0); }
  MemoryState initial_state(std::int64_t batch) const override {
    return {{torch::zeros({batch, width()}, log_time_D_.options().requires_grad(false))}};
  }

 private:
  // The factor, and what is added, in the state's type.
  torch::Tensor keep_D() const { return torch::exp(-torch::exp(-log_time_D_)); }
  torch::Tensor write(const torch::Tensor& x) { return (1 - keep_D()) * map_(x).to(log_time_D_.scalar_type()); }

  Output run(const torch::Tensor& input_BTD, const MemoryState& initial, const torch::Tensor& lengths_B,
             Rows) override {
    const torch::Tensor write_BTD = write(input_BTD), &h0_BD = initial.tensors[0];
    const torch::Tensor h_BTD = linear_recurrence(keep_D(), write_BTD, h0_BD);
    return {torch::relu(h_BTD), {{state_after(h_BTD, h0_BD, lengths_B)}}};
  }

  torch::Tensor run_step(const torch::Tensor& input_BD, MemoryState& state) override {
    state.tensors[0].mul_(keep_D()).add_(write(input_BD));
    return torch::relu(state.tensors[0]);
  }

  std::int64_t multiply_adds_per_step() const override { return map_->weight.numel(); }

  torch::nn::Linear map_;
  torch::Tensor log_time_D_;
};

inline std::shared_ptr<SequenceModel> LeakyIntegratorOptions::make(std::int64_t) const {
  check();
  return std::make_shared<LeakyIntegrator>(*this);
}

static_assert(BackboneOptions<LeakyIntegratorOptions>);

}  // namespace engram
