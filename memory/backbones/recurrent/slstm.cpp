// sLSTM (Beck et al. 2024, arXiv:2405.04517, equations 8 to 17): with a = W x_t + R h_{t-1} + b for each of the cell
// input z, the input gate i, the forget gate f and the output gate o, where R stays within a head,
//   m_t = max(log sigmoid(a_f) + m_{t-1}, a_i),   i' = exp(a_i - m_t),   f' = exp(log sigmoid(a_f) + m_{t-1} - m_t),
//   c_t = f' c_{t-1} + i' tanh(a_z),   n_t = f' n_{t-1} + i',   h_t = sigmoid(a_o) c_t / n_t.
// m only scales c and n, of which the quotient counts, so that it may begin at 0. The mixer's output is h,
// RMS-normalised per head; the paper's block has a group norm there.
#include "memory/backbones/recurrent/slstm.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "memory/core/block_stack.h"
#include "memory/ops/recurrences/linear_recurrence.h"
#include "memory/ops/recurrences/slstm_cuda.h"
#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"

namespace engram {
namespace {

using torch::Tensor;

class SlstmMixer : public torch::nn::Module {
 public:
  using Options = SlstmOptions;
  static constexpr bool kCountsSteps = false;
  static Support supports_learning(const Options&) { return Support::no("only its recurrence has kernels"); }

  using Plan = LengthsPlan;
  using StepPlan = EmptyStepPlan;

  SlstmMixer(const Options& options, int number)
      : heads_(options.heads),
        head_width_(options.width / options.heads),
        input_(register_module("input", first_weights(options).inner_map(options.width, kGates * options.width))),
        recurrent_HKX_(register_parameter("recurrent", torch::zeros({heads_, head_width_, kGates * head_width_}))),
        bias_HX_(register_parameter("bias", torch::zeros({heads_, kGates * head_width_}))),
        head_norm_(register_module("head_norm", std::make_shared<RmsNorm>(head_width_))) {
    // Each head has channels that forget fast and slowly.
    const torch::NoGradGuard no_grad;
    Tensor forget_HK = bias_HX_.narrow(1, kForget * head_width_, head_width_);
    if (options.first_weights == SlstmWeights::kPowerLaw) {
      const double depth = options.layers > 1 ? number / (options.layers - 1.0) : 0;
      forget_HK.copy_(5 - 12 * torch::linspace(0, 1, head_width_).pow(0.3 + 1.3 * depth));
    } else {
      forget_HK.copy_(torch::linspace(3, 6, head_width_));
      recurrent_HKX_.normal_(0, options.weight_std);
    }
  }

  // h, c, n and m.
  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    return std::vector<std::vector<std::int64_t>>(4, {options.heads, options.width / options.heads});
  }
  static std::int64_t multiply_adds_per_step(const Options& options) {
    const std::int64_t width = options.width;
    return kGates * width * (width + width / options.heads);
  }

  std::vector<Tensor> output_parameters() const { return {head_norm_->weight()}; }

  Tensor forward(const Tensor& x_BTD, const Plan& plan, std::span<const Tensor> state,
                 std::vector<Tensor>& final_state) {
    const Tensor gates_BTHX = gates_of_input(x_BTD, state[0].scalar_type());
    if (plan.forgets && !PlainOperations::on() && cuda::supports_slstm(gates_BTHX, recurrent_HKX_)) {
      final_state.insert(final_state.end(), state.begin(), state.end());
      return join_heads(head_norm_->forward(cuda::slstm(gates_BTHX, recurrent_HKX_, plan.lengths_B)));
    }
    const std::int64_t steps = x_BTD.size(1);
    const std::vector<Tensor> gates_T = gates_BTHX.unbind(1);
    Cell cell = first_cell(state);
    std::vector<Tensor> all[4];
    for (std::int64_t t = 0; t < steps; ++t) {
      cell = next(cell, gates_T[static_cast<std::size_t>(t)]);
      for (int i = 0; i < 4; ++i) all[i].push_back(cell[i]);
    }
    for (int i = 0; i < 4; ++i)
      final_state.push_back(
          state_after(torch::stack(all[i], 1).flatten(2), state[i].flatten(1), plan.lengths_B).view_as(state[i]));
    return join_heads(head_norm_->forward(torch::stack(all[0], 1)));
  }

  Tensor step(const Tensor& x_BD, const StepPlan&, std::span<const Tensor> state, LayerView* view) {
    const Cell cell = next(first_cell(state), gates_of_input(x_BD, state[0].scalar_type()));
    for (int i = 0; i < 4; ++i) Tensor(state[i]).copy_(cell[i]);
    // m scales c and n, so that only their quotient can be compared between steps.
    if (view != nullptr)
      view->states = {state_view("hidden", cell[0].flatten(1)),
                      state_view("cell", (cell[1] / cell[2].clamp_min(kSmallest)).flatten(1))};
    return join_heads(head_norm_->forward(cell[0]));
  }

 private:
  enum Gate { kInput, kForget, kCandidate, kOutput, kGates };
  using Cell = std::array<Tensor, 4>;  // h, c, n, m: [B, H, K] each
  // In a fresh state n may be tiny, where the first input gate is closed; c is then as small.
  static constexpr double kSmallest = 1e-20;

  static Cell first_cell(std::span<const Tensor> state) { return {state[0], state[1], state[2], state[3]}; }

  // [..., H, 4K]
  Tensor gates_of_input(const Tensor& x, torch::ScalarType dtype) {
    return split_heads(apply_linear(input_, x).to(dtype), heads_) + bias_HX_;
  }

  Cell next(const Cell& before, const Tensor& gates_BHX) const {
    const auto& [h, c, n, m] = before;
    const ComputeIn products(h.device(), h.scalar_type());
    const Tensor recurrent_BHX = torch::bmm(h.transpose(0, 1), recurrent_HKX_).transpose(0, 1);
    const std::vector<Tensor> gate = (gates_BHX + recurrent_BHX).chunk(kGates, -1);
    const Tensor kept = torch::log_sigmoid(gate[kForget]) + m;
    const Tensor next_m = torch::maximum(kept, gate[kInput]);
    const Tensor write = torch::exp(gate[kInput] - next_m), keep = torch::exp(kept - next_m);
    const Tensor next_c = keep * c + write * gate[kCandidate].tanh(), next_n = keep * n + write;
    return {gate[kOutput].sigmoid() * next_c / next_n.clamp_min(kSmallest), next_c, next_n, next_m};
  }

  std::int64_t heads_, head_width_;
  torch::nn::Linear input_;
  Tensor recurrent_HKX_, bias_HX_;
  std::shared_ptr<RmsNorm> head_norm_;
};

}  // namespace

void SlstmOptions::list_options(OptionList& list) {
  list_sizes(list, *this, kSwiGluWidth);
  list_training(list);
  list.add("first_weights", first_weights, {{SlstmWeights::kPowerLaw, "power_law"}, {SlstmWeights::kLinear, "linear"}},
           "first forget gates and recurrent weights: biases from 5 to -7 by a power of the channel's place and zero, "
           "or biases from 3 to 6 and as the other maps");
  list.since(2, "linear");
}

void SlstmOptions::check() const {
  check_bounds(*this, kMemorySection);
  check_heads(width, heads);
}

LayerSpec SlstmOptions::layer(std::int64_t) const { return layer_spec<SlstmMixer>(*this); }

std::shared_ptr<SequenceModel> SlstmOptions::make(std::int64_t max_steps) const {
  return make_block_stack(*this, max_steps);
}

}  // namespace engram
