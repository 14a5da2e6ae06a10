// Fast and Forgetful Memory (Morad et al. 2023, arXiv:2310.04128, section 4): a complex state S in C^{m x c},
//   u_t = W1 x_t * sigmoid(W2 x_t),   S_t = gamma S_{t-1} + u_t 1^T,   gamma_{jk} = exp(-|alpha_j| - i omega_k),
//   g = sigmoid(W4 x_t),   y_t = g LayerNorm(W3 [Re S_t; Im S_t]) + (1 - g) W5 x_t,
// all maps with biases, the norm without weights. Their sum over an episode, which divides by powers of gamma and
// needs float64 for it, is a linear recurrence here.
#include "memory/backbones/recurrent/ffm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "memory/core/sequence_model.h"
#include "memory/ops/recurrences/linear_recurrence.h"
#include "nn/layers/layers.h"

namespace engram {
namespace {

using torch::Tensor;

class Ffm final : public SequenceModel {
 public:
  explicit Ffm(const FfmOptions& options)
      : options_(options),
        input_(register_module("input", torch::nn::Linear(options.width, options.traces))),
        input_gate_(register_module("input_gate", torch::nn::Linear(options.width, options.traces))),
        read_(register_module("read", torch::nn::Linear(2 * options.traces * options.contexts, options.width))),
        output_gate_(register_module("output_gate", torch::nn::Linear(options.width, options.width))),
        skip_(register_module("skip", torch::nn::Linear(options.width, options.width))) {
    const double slowest = std::log(100.0) / options.longest, fastest = std::max(slowest, std::log(2.0));
    decay_M_ = register_parameter("decay", torch::linspace(slowest, fastest, options.traces));
    frequency_C_ = register_parameter("frequency", 2 * M_PI / torch::linspace(1, options.longest, options.contexts));
  }

  std::int64_t width() const override { return options_.width; }

  // Complex numbers as pairs, real part first.
  MemoryState initial_state(std::int64_t batch) const override {
    return {{torch::zeros({batch, options_.traces * options_.contexts, 2}, decay_M_.options().requires_grad(false))}};
  }

 private:
  Output run(const Tensor& input_BTD, const MemoryState& initial, const Tensor& lengths_B, Rows) override {
    const Tensor written_BTX = write(input_BTD), before_BX = torch::view_as_complex(initial.tensors[0]);
    const Tensor s_BTX = linear_recurrence(factors(), written_BTX, before_BX);
    return {read(s_BTX, input_BTD), {{torch::view_as_real(state_after(s_BTX, before_BX, lengths_B))}}};
  }

  Tensor run_step(const Tensor& input_BD, MemoryState& state) override {
    Tensor s_BX = torch::view_as_complex(state.tensors[0]);
    s_BX.mul_(factors()).add_(write(input_BD));
    return read(s_BX, input_BD);
  }

  // Of X = m c numbers, the context last.
  Tensor factors() const { return from_polar(torch::exp(-decay_M_.abs()).unsqueeze(1), -frequency_C_).flatten(); }
  Tensor write(const Tensor& x) {
    const auto dtype = decay_M_.scalar_type();
    const std::vector<Tensor> mapped = apply_linears({input_, input_gate_}, x);
    const Tensor trace = mapped[0].to(dtype) * mapped[1].to(dtype).sigmoid();
    const Tensor real = trace.repeat_interleave(options_.contexts, -1);
    return torch::complex(real, torch::zeros_like(real));
  }
  Tensor read(const Tensor& s, const Tensor& x) {
    const auto dtype = decay_M_.scalar_type();
    const std::vector<Tensor> mapped = apply_linears({output_gate_, skip_}, x);
    const Tensor gate = mapped[0].to(dtype).sigmoid();
    const Tensor seen = apply_linear(read_, torch::cat({torch::real(s), torch::imag(s)}, -1)).to(dtype);
    const Tensor normed = torch::layer_norm(seen, {options_.width}, {}, {}, kLayerNormEpsilon);
    return gate * normed + (1 - gate) * mapped[1].to(dtype);
  }

  // A product of complex numbers is four of real ones.
  std::int64_t multiply_adds_per_step() const override {
    return multiply_adds_of(parameters()) + 4 * options_.traces * options_.contexts;
  }

  FfmOptions options_;
  torch::nn::Linear input_, input_gate_, read_, output_gate_, skip_;
  Tensor decay_M_, frequency_C_;
};

}  // namespace

void FfmOptions::list_options(OptionList& list) {
  list_width(list, width);
  list.add("traces", traces, {1, 1 << 14}, "traces of the input, each with a decay of its own");
  list.add("contexts", contexts, {1, 1 << 10}, "frequencies in which each trace is kept");
  list.add("longest", longest, {2, 1e6},
           "longest period at first, in steps; the slowest trace has 1% left after as many");
}

void FfmOptions::check() const { check_bounds(*this, kMemorySection); }

std::shared_ptr<SequenceModel> FfmOptions::make(std::int64_t) const {
  check();
  return std::make_shared<Ffm>(*this);
}

}  // namespace engram
