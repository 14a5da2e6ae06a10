// minGRU (Feng et al. 2024, arXiv:2410.01201, section 3.1), without the log-space form that is there for the numerics
// of a scan by cumulative products, and with it the map g that keeps the candidate positive:
//   z_t = sigmoid(Wz x_t + b),  h_t = (1 - z_t) h_{t-1} + z_t Wh x_t;  the mixer's output is Wo h_t.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "memory/backbones/recurrent/linear_mixer.h"
#include "memory/backbones/recurrent/linear_rnn.h"
#include "memory/ops/recurrences/min_gru_gates.h"

namespace engram {
namespace {

class MinGruMixer : public torch::nn::Module {
 public:
  using Options = MinGruOptions;
  static constexpr bool kCountsSteps = false;
  static Support supports_learning(const Options&) { return gates_and_the_recurrence(); }
  using Plan = LengthsPlan;
  using StepPlan = EmptyStepPlan;

  explicit MinGruMixer(const Options& options)
      : gate_(register_module("gate", first_weights(options).inner_map(options.width, options.recurrent_width()))),
        gate_bias_N_(register_parameter("gate_bias", torch::zeros({options.recurrent_width()}))),
        candidate_(
            register_module("candidate", first_weights(options).inner_map(options.width, options.recurrent_width()))),
        output_(
            register_module("output", first_weights(options).output_map(options.recurrent_width(), options.width))) {}

  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    return {{options.recurrent_width()}};
  }
  std::vector<torch::Tensor> output_parameters() const { return {output_->weight}; }
  static std::int64_t multiply_adds_per_step(const Options& options) {
    const std::int64_t channels = options.recurrent_width();
    return 3 * options.width * channels + 2 * channels;
  }

  torch::Tensor forward(const torch::Tensor& x_BTD, const Plan& plan, std::span<const torch::Tensor> state,
                        std::vector<torch::Tensor>& final_state) {
    const RecurrenceUpdate update = update_of(x_BTD);
    return apply_linear(output_, recur(update.keep, update.write, state[0], plan, final_state));
  }

  torch::Tensor step(const torch::Tensor& x_BD, const StepPlan&, std::span<const torch::Tensor> state, LayerView*) {
    const RecurrenceUpdate update = update_of(x_BD);
    torch::Tensor h_BN = state[0];
    h_BN.mul_(update.keep).add_(update.write);
    return apply_linear(output_, h_BN);
  }

 private:
  RecurrenceUpdate update_of(const torch::Tensor& x) {
    const std::vector<torch::Tensor> mapped = apply_linears({gate_, candidate_}, x);
    return min_gru_gates(mapped[0], mapped[1], gate_bias_N_);
  }

  torch::nn::Linear gate_;
  torch::Tensor gate_bias_N_;
  torch::nn::Linear candidate_, output_;
};

}  // namespace

void MinGruOptions::check() const { check_bounds(*this, kMemorySection); }

LayerSpec MinGruOptions::layer(std::int64_t) const { return layer_spec<MinGruMixer>(*this); }

std::shared_ptr<SequenceModel> MinGruOptions::make(std::int64_t max_steps) const {
  return make_block_stack(*this, max_steps);
}

}  // namespace engram
