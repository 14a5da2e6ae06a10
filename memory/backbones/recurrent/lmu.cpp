// LMU (Voelker et al. 2019, equations 4, 6 and 7): a hidden state h, and a memory m of the last theta steps of one
// signal u,
//   u_t = e_x . x_t + e_h . h_{t-1} + e_m . m_{t-1},   m_t = A m_{t-1} + B u_t,
//   h_t = tanh(W_x x_t + W_h h_{t-1} + W_m m_t);
// the output is h. A and B are not learnt: those of their equations 1 and 2, for one step of a signal that is constant
// within it (zero-order hold).
#include "memory/backbones/recurrent/lmu.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/core/sequence_model.h"
#include "memory/ops/recurrences/cpu_gated_rnn.h"
#include "memory/ops/recurrences/gated_rnn_cuda.h"
#include "memory/ops/recurrences/linear_recurrence.h"
#include "nn/cpu/layers.h"
#include "nn/device/autocast.h"
#include "nn/fused/weights/prepared_weights.h"
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

  Support supports_learning(torch::ScalarType dtype, torch::Device device) const override {
    return cuda::supports_gated_rnn(GatedCell::kElman, width_ + order_, dtype, device);
  }

  // h and m.
  MemoryState initial_state(std::int64_t batch) const override {
    const auto options = b_M_.options();
    return {{torch::zeros({batch, width_}, options), torch::zeros({batch, order_}, options)}};
  }

 private:
  // m_t in the equation of h_t gives both as one recurrence of s = [h m], of which h alone is squashed:
  //   a_t = (W + c e_x^T) x_t + (U + c e^T) s_{t-1},   e = [e_h e_m],   c = [W_m B; B],   W = [W_x; 0],
  //   U = [W_h, W_m A; 0, A],   h_t = tanh of the first of a_t, m_t = the others.
  struct OneRecurrence {
    Tensor input_XD, recurrent_XX;
  };
  OneRecurrence one_recurrence() const {
    const ComputeIn products(b_M_.device(), b_M_.scalar_type());
    const Tensor c_X = torch::cat({memory_DM_.mv(b_M_), b_M_});
    const Tensor from_h_XD = torch::constant_pad_nd(hidden_DD_, {0, 0, 0, order_}),
                 from_m_XM = torch::cat({memory_DM_.mm(a_MM_), a_MM_});
    return {
        torch::addr(torch::constant_pad_nd(input_->weight, {0, 0, 0, order_}), c_X, input_encoder_D_),
        torch::addr(torch::cat({from_h_XD, from_m_XM}, 1), c_X, torch::cat({hidden_encoder_D_, memory_encoder_M_}))};
  }
  // Its fresh rows by kernels or loops.
  template <class GatedRnn>
  Tensor run_fresh_by(const GatedRnn& gated_rnn, const Tensor& input_BTD, const Tensor& lengths_B) const {
    const OneRecurrence maps = one_recurrence();
    return gated_rnn({maps.input_XD, maps.recurrent_XX, {}, {}, order_}, input_BTD, lengths_B).narrow(2, 0, width_);
  }

  Tensor hidden_of(const Tensor& s) const { return s.narrow(-1, 0, width_); }
  Tensor memory_of(const Tensor& s) const { return s.narrow(-1, width_, order_); }
  // s_t of a_t.
  Tensor squashed(const Tensor& a_BX) const { return torch::cat({hidden_of(a_BX).tanh(), memory_of(a_BX)}, 1); }

  Output run(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B, Rows) override {
    const auto dtype = b_M_.scalar_type();
    const OneRecurrence maps = one_recurrence();
    const Tensor of_input_BTX = apply_weight(maps.input_XD, input_BTD).to(dtype);
    const ComputeIn products(b_M_.device(), dtype);
    const Tensor before_BX = torch::cat(initial.tensors, 1), recurrent_XX = maps.recurrent_XX.t();
    Tensor s_BX = before_BX;
    std::vector<Tensor> all;
    for (const Tensor& of_input_BX : of_input_BTX.unbind(1))
      all.push_back(s_BX = squashed(torch::addmm(of_input_BX, s_BX, recurrent_XX)));
    const Tensor s_BTX = torch::stack(all, 1), after_BX = state_after(s_BTX, before_BX, lengths_B);
    return {hidden_of(s_BTX), {{hidden_of(after_BX).contiguous(), memory_of(after_BX).contiguous()}}};
  }

  Tensor run_fresh(const Tensor& input_BTD, const Tensor& lengths_B) override {
    if (cpu::takes(input_BTD)) return run_fresh_by(cpu::gated_rnn, input_BTD, lengths_B);
    return SequenceModel::run_fresh(input_BTD, lengths_B);
  }

  Tensor run_on_kernels(const Tensor& input_BTD, const Tensor& lengths_B) override {
    return run_fresh_by(cuda::gated_rnn, input_BTD, lengths_B);
  }

  Tensor run_step(const Tensor& input_BD, MemoryState& state) override {
    const auto dtype = b_M_.scalar_type();
    Tensor &h_BD = state.tensors[0], &m_BM = state.tensors[1];
    if (input_BD.is_cuda()) {  // where acting keeps the maps for as long as the weights stay
      const std::vector<Tensor> maps = cuda::PreparedWeights::made(parameters(), [this] {
        const OneRecurrence made = one_recurrence();
        return std::vector<Tensor>{made.input_XD, made.recurrent_XX};
      });
      const Tensor of_input_BX = apply_weight(maps[0], input_BD).to(dtype);
      const Tensor s_BX = squashed(of_input_BX + apply_weight(maps[1], torch::cat({h_BD, m_BM}, 1)).to(dtype));
      h_BD.copy_(hidden_of(s_BX));
      m_BM.copy_(memory_of(s_BX));
    } else {  // the definition: the product of W_m and A would cost more than a step
      const Tensor signal_B = input_BD.mv(input_encoder_D_) + h_BD.mv(hidden_encoder_D_) + m_BM.mv(memory_encoder_M_);
      m_BM.copy_(torch::addmm(torch::outer(signal_B, b_M_), m_BM, a_MM_.t()));
      const Tensor of_hidden_BD = torch::addmm(apply_linear(input_, input_BD), h_BD, hidden_DD_.t());
      h_BD.copy_(torch::addmm(of_hidden_BD, m_BM, memory_DM_.t()).tanh());
    }
    return h_BD.clone();
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
