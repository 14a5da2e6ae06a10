// Griffin's recurrent block (De et al. 2024, arXiv:2402.19427, sections 2.3 and 2.4):
//   u_t = b + sum over j < 4 of w_j (Wu x)_{t-j}, a causal convolution per channel;
//   r_t = sigmoid(Wa u_t + ba),  i_t = sigmoid(Wi u_t + bi),  a_t = sigmoid(Lambda)^(8 r_t)    (equations 1 to 3)
//   h_t = a_t h_{t-1} + s_t (i_t u_t),   s_t = sqrt(1 - a_t^2)                                  (equation 4)
// and the mixer's output is Wo (gelu(Wg x_t) h_t). In the authors' code s is 1 at an episode's first step: what has no
// past to make room for is not scaled.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "memory/backbones/recurrent/linear_mixer.h"
#include "memory/backbones/recurrent/linear_rnn.h"
#include "memory/ops/recurrences/rg_lru_gates.h"
#include "memory/ops/short_convolution.h"

namespace engram {
namespace {

constexpr std::int64_t kConvolution = 4;             // steps
constexpr double kSmallest = 0.9, kLargest = 0.999;  // first factors

class RgLruMixer : public torch::nn::Module {
 public:
  using Options = RgLruOptions;
  static bool counts_steps(const Options& options) { return !options.scale_first_step; }
  static Support supports_learning(const Options&) { return gates_and_the_recurrence(); }

  // Which steps are the first of an episode; undefined where they are written as all others.
  struct Plan : LengthsPlan {
    Plan(const Options& options, const Span& span) : LengthsPlan(options, span) {
      if (counts_steps(options)) is_first_BT1 = (step_positions(span) == 0).unsqueeze(2);
    }
    torch::Tensor is_first_BT1;
  };
  struct StepPlan {
    StepPlan(const Options& options, const torch::Tensor& position_B, torch::ScalarType) {
      if (counts_steps(options)) is_first_B1 = (position_B == 0).unsqueeze(1);
    }
    torch::Tensor is_first_B1;
  };

  explicit RgLruMixer(const Options& options)
      : gate_(register_module("gate", first_weights(options).inner_map(options.width, options.recurrent_width()))),
        input_(register_module("input", first_weights(options).inner_map(options.width, options.recurrent_width()))),
        recurrence_gate_(register_module("recurrence_gate", gate_map(options))),
        input_gate_(register_module("input_gate", gate_map(options))),
        output_(
            register_module("output", first_weights(options).output_map(options.recurrent_width(), options.width))) {
    const std::int64_t channels = options.recurrent_width();
    convolution_ = register_module("convolution", std::make_shared<ShortConvolution>(channels, kConvolution));
    convolution_bias_N_ = register_parameter("convolution_bias", torch::zeros({channels}));
    decay_N_ = register_parameter("decay", first_factors(options.first_factors, channels).logit());
  }

  // h, and what the convolution still sees, oldest first.
  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    return {{options.recurrent_width()}, {kConvolution - 1, options.recurrent_width()}};
  }
  std::vector<torch::Tensor> output_parameters() const { return {output_->weight}; }
  static std::int64_t multiply_adds_per_step(const Options& options) {
    const std::int64_t channels = options.recurrent_width();
    return channels * (3 * options.width + 2 * channels + kConvolution + 2);
  }

  torch::Tensor forward(const torch::Tensor& x_BTD, const Plan& plan, std::span<const torch::Tensor> state,
                        std::vector<torch::Tensor>& final_state) {
    const auto [convolved_BTN, past_BPN] = convolution_->forward(apply_linear(input_, x_BTD), state[1], plan.lengths_B);
    const RecurrenceUpdate update = update_of(convolved_BTN + convolution_bias_N_, plan.is_first_BT1);
    const torch::Tensor h_BTN = recur(update.keep, update.write, state[0], plan, final_state);
    final_state.push_back(past_BPN);
    return read(h_BTN, x_BTD);
  }

  torch::Tensor step(const torch::Tensor& x_BD, const StepPlan& plan, std::span<const torch::Tensor> state,
                     LayerView*) {
    torch::Tensor h_BN = state[0];
    const RecurrenceUpdate update =
        update_of(convolution_->step(apply_linear(input_, x_BD), state[1]) + convolution_bias_N_, plan.is_first_B1);
    h_BN.mul_(update.keep).add_(update.write);
    return read(h_BN, x_BD);
  }

 private:
  // sigmoid(Lambda)
  static torch::Tensor first_factors(RgLruFactors factors, std::int64_t channels) {
    const torch::Tensor drawn_N = torch::empty({channels});
    if (factors == RgLruFactors::kPower) return drawn_N.uniform_(kSmallest, kLargest).pow(1 / kRgLruExponent);
    return drawn_N.uniform_(kSmallest * kSmallest, kLargest * kLargest).sqrt();
  }
  static torch::nn::Linear gate_map(const Options& options) {
    torch::nn::Linear map(options.recurrent_width(), options.recurrent_width());
    torch::nn::init::normal_(map->weight, 0, options.weight_std);
    torch::nn::init::zeros_(map->bias);
    return map;
  }

  RecurrenceUpdate update_of(const torch::Tensor& u, const torch::Tensor& is_first) {
    const std::vector<torch::Tensor> mapped = apply_linears({recurrence_gate_, input_gate_}, u);
    return rg_lru_gates({mapped[0], mapped[1], u, decay_N_, is_first});
  }
  torch::Tensor read(const torch::Tensor& h, const torch::Tensor& x) {
    return apply_linear(output_, torch::gelu(apply_linear(gate_, x)) * h);
  }

  torch::nn::Linear gate_, input_, recurrence_gate_, input_gate_, output_;
  std::shared_ptr<ShortConvolution> convolution_;
  torch::Tensor convolution_bias_N_, decay_N_;
};

}  // namespace

void RgLruOptions::list_options(OptionList& list) {
  LinearRnnOptions::list_options(list);
  list.add("first_factors", first_factors, {{RgLruFactors::kBase, "base"}, {RgLruFactors::kPower, "power"}},
           "what is within 0.9 .. 0.999 at first: sigmoid(Lambda), or its eighth power");
  list.since(2, "power");
  list.add("scale_first_step", scale_first_step,
           "whether an episode's first step is written times sqrt(1 - a^2), as the others are");
  list.since(2, "true");
}

void RgLruOptions::check() const { check_bounds(*this, kMemorySection); }

LayerSpec RgLruOptions::layer(std::int64_t) const { return layer_spec<RgLruMixer>(*this); }

std::shared_ptr<SequenceModel> RgLruOptions::make(std::int64_t max_steps) const {
  return make_block_stack(*this, max_steps);
}

}  // namespace engram
