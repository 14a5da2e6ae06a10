// LMU (Voelker et al. 2019, equations 4, 6 and 7): a hidden state h, and a memory m of the last theta steps of one
// signal u,
//   u_t = e_x . x_t + e_h . h_{t-1} + e_m . m_{t-1},   m_t = A m_{t-1} + B u_t,
//   h_t = tanh(W_x x_t + W_h h_{t-1} + W_m m_t);
// the output is h. A and B are not learnt: those of their equations 1 and 2, for one step of a signal that is constant
// within it (zero-order hold).
#include "memory/backbones/recurrent/lmu.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/core/sequence_model.h"
#include "memory/ops/recurrences/linear_recurrence.h"
#include "nn/device/autocast.h"
#include "nn/layers/layers.h"

namespace engram {
namespace {

using torch::Tensor;

// exp of [A B; 0 0], whose first rows are the discrete A and B: [M, M + 1], in double precision.
Tensor discrete_system(std::int64_t order, std::int64_t window) {
  const Tensor i_M1 = torch::arange(order, torch::kFloat64).unsqueeze(1), j_M = i_M1.squeeze(1);
  const Tensor rate_M1 = (2 * i_M1 + 1) / static_cast<double>(window);
  // (-1)^n
  const auto sign = [](const Tensor& n) { return 1 - 2 * torch::remainder(n, 2); };
  const Tensor a_MM = rate_M1 * torch::where(i_M1 < j_M, torch::tensor(-1.0, torch::kFloat64), -sign(i_M1 - j_M));
  const Tensor system = torch::constant_pad_nd(torch::cat({a_MM, rate_M1 * sign(i_M1)}, 1), {0, 0, 0, 1});
  return torch::matrix_exp(system).narrow(0, 0, order);
}

// Uniform with a variance of 1 / inputs (LeCun).
Tensor lecun_uniform(std::int64_t inputs) {
  const double bound = std::sqrt(3.0 / static_cast<double>(inputs));
  return torch::empty({inputs}).uniform_(-bound, bound);
}

// Normal with a variance of 2 / (inputs + outputs) (Glorot).
Tensor xavier_normal(std::int64_t outputs, std::int64_t inputs) {
  return torch::randn({outputs, inputs}) * std::sqrt(2.0 / static_cast<double>(inputs + outputs));
}

class Lmu final : public SequenceModel {
 public:
  explicit Lmu(const LmuOptions& options)
      : width_(options.width),
        order_(options.coefficients()),
        input_encoder_D_(register_parameter("input_encoder", lecun_uniform(width_))),
        hidden_encoder_D_(register_parameter("hidden_encoder", lecun_uniform(width_))),
        memory_encoder_M_(register_parameter("memory_encoder", torch::zeros({order_}))),
        input_(register_module("input", torch::nn::Linear(torch::nn::LinearOptions(width_, width_).bias(false)))),
        hidden_DD_(register_parameter("hidden", xavier_normal(width_, width_))),
        memory_DM_(register_parameter("memory", xavier_normal(width_, order_))) {
    const torch::NoGradGuard no_grad;
    input_->weight.copy_(xavier_normal(width_, width_));
    const Tensor system = discrete_system(order_, options.window).to(torch::kFloat32);
    a_MM_ = register_buffer("a", system.narrow(1, 0, order_).contiguous());
    b_M_ = register_buffer("b", system.select(1, order_).contiguous());
  }

  std::int64_t width() const override { return width_; }

  // h and m.
  MemoryState initial_state(std::int64_t batch) const override {
    const auto options = b_M_.options();
    return {{torch::zeros({batch, width_}, options), torch::zeros({batch, order_}, options)}};
  }

 private:
  // A step's maps of [h m] to m_t and of [h m_t] to h_t, and what the input adds to both.
  struct Step {
    Tensor to_memory_XM, to_hidden_XD;
  };
  struct OfInput {
    Tensor memory, hidden;  // [..., M], [..., D]
  };
  Step step_maps() const {
    const ComputeIn products(b_M_.device(), b_M_.scalar_type());
    const Tensor encoder_X = torch::cat({hidden_encoder_D_, memory_encoder_M_});
    const Tensor kept_XM = torch::constant_pad_nd(a_MM_.t(), {0, 0, width_, 0});
    return {kept_XM + torch::outer(encoder_X, b_M_), torch::cat({hidden_DD_.t(), memory_DM_.t()})};
  }
  OfInput of_input(const Tensor& x) {
    const auto dtype = b_M_.scalar_type();
    const Tensor signal = (x.to(dtype) * input_encoder_D_).sum(-1, /*keepdim=*/true);
    return {signal * b_M_, apply_linear(input_, x).to(dtype)};
  }
  // h and m after a step.
  using Cell = std::array<Tensor, 2>;
  static Cell next(const Step& maps, const Tensor& memory_of_input, const Tensor& hidden_of_input, const Cell& before) {
    const ComputeIn products(before[0].device(), before[0].scalar_type());
    const Tensor m_BM = torch::addmm(memory_of_input, torch::cat({before[0], before[1]}, 1), maps.to_memory_XM);
    const Tensor h_BD = torch::addmm(hidden_of_input, torch::cat({before[0], m_BM}, 1), maps.to_hidden_XD).tanh();
    return {h_BD, m_BM};
  }

  Output run(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B, Rows) override {
    const Step maps = step_maps();
    const OfInput added = of_input(input_BTD);
    const std::vector<Tensor> memory_T = added.memory.unbind(1), hidden_T = added.hidden.unbind(1);
    Cell cell{initial.tensors[0], initial.tensors[1]};
    std::vector<Tensor> all_h, all_m;
    for (std::size_t t = 0; t < hidden_T.size(); ++t) {
      cell = next(maps, memory_T[t], hidden_T[t], cell);
      all_h.push_back(cell[0]);
      all_m.push_back(cell[1]);
    }
    const Tensor h_BTD = torch::stack(all_h, 1);
    return {h_BTD,
            {{state_after(h_BTD, initial.tensors[0], lengths_B),
              state_after(torch::stack(all_m, 1), initial.tensors[1], lengths_B)}}};
  }

  Tensor run_step(const Tensor& input_BD, MemoryState& state) override {
    const OfInput added = of_input(input_BD);
    const Cell cell = next(step_maps(), added.memory, added.hidden, {state.tensors[0], state.tensors[1]});
    for (std::size_t i = 0; i < 2; ++i) state.tensors[i].copy_(cell[i]);
    return cell[0];
  }

  Tensor run_viewed_step(const Tensor& input_BD, MemoryState& state, MemoryView& view) override {
    Tensor output_BD = run_step(input_BD, state);
    view.layers.assign(1, {});
    view.layers[0].states = {state_view("hidden", state.tensors[0]), state_view("memory", state.tensors[1])};
    return output_BD;
  }

  // Those of the definition: the encoders, A, B and the three kernels.
  std::int64_t multiply_adds_per_step() const override {
    return multiply_adds_of(parameters()) + 2 * width_ + order_ + order_ * (order_ + 1);
  }

  std::int64_t width_, order_;
  Tensor input_encoder_D_, hidden_encoder_D_, memory_encoder_M_;
  torch::nn::Linear input_;
  Tensor hidden_DD_, memory_DM_;
  Tensor a_MM_, b_M_;
};

}  // namespace

void LmuOptions::list_options(OptionList& list) {
  list_width(list, width);
  list.add("memory_width", memory_width, {0, 1024},
           "Legendre polynomials that the window is kept by; 0: as many as the width");
  list.add("window", window, {1, 1 << 20}, "steps of the window");
}

void LmuOptions::check() const { check_bounds(*this, kMemorySection); }

std::shared_ptr<SequenceModel> LmuOptions::make(std::int64_t) const {
  check();
  return std::make_shared<Lmu>(*this);
}

}  // namespace engram
