// What the mixers of the linear recurrent networks share.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "memory/core/block_stack.h"
#include "memory/ops/recurrences/linear_recurrence.h"
#include "memory/ops/recurrences/linear_recurrence_cuda.h"
#include "nn/device/plain_operations.h"
#include "nn/fused/weights/prepared_weights.h"

namespace engram {

// The recurrence over a call from a layer's state, which is appended to `final_state` as it is afterwards.
inline torch::Tensor recur(const torch::Tensor& a, const torch::Tensor& b_BTD, const torch::Tensor& h0_BD,
                           const LengthsPlan& plan, std::vector<torch::Tensor>& final_state) {
  const torch::Tensor h_BTD = linear_recurrence(a, b_BTD, h0_BD);
  final_state.push_back(state_after(h_BTD, h0_BD, plan.lengths_B));
  return h_BTD;
}

// Why such a mixer is not one of kernels.
inline Support only_the_recurrence() { return Support::no("only its linear recurrence has kernels"); }
inline Support gates_and_the_recurrence() {
  return Support::no("only its gates and its linear recurrence have kernels");
}

// A linear map with first weights N(0, deviation), without bias.
inline torch::nn::Linear normal_map(std::int64_t inputs, std::int64_t outputs, double deviation) {
  torch::nn::Linear map(torch::nn::LinearOptions(inputs, outputs).bias(false));
  torch::nn::init::normal_(map->weight, 0, deviation);
  return map;
}

// a and s of a ComplexMixer, complex or real.
struct ComplexRecurrence {
  torch::Tensor factors_N, input_scale_N;
};

// A mixer of complex channels with factors that do not depend on the input:
//   h_t = a h_{t-1} + s (B x_t),   y_t = Re(C h_t) + D x_t.
// Complex numbers are pairs of real ones, real part first: B is [2N, D], the state [N, 2], and Re(C h) a real map of
// 2N numbers. Derived has recurrence(), a ComplexRecurrence of its parameters.
template <class Derived>
class ComplexMixer : public torch::nn::Module {
 public:
  static constexpr bool kCountsSteps = false;
  using Plan = LengthsPlan;
  using StepPlan = EmptyStepPlan;

  template <class Options>
  static std::vector<std::vector<std::int64_t>> state_shapes(const Options& options) {
    return {{options.recurrent_width(), 2}};
  }
  template <class Options>
  static Support supports_learning(const Options&) {
    return only_the_recurrence();
  }
  // A product of complex numbers is four of real ones.
  template <class Options>
  static std::int64_t multiply_adds_per_step(const Options& options) {
    const std::int64_t width = options.width, channels = options.recurrent_width();
    return 4 * width * channels + 2 * 4 * channels + width;
  }

  std::vector<torch::Tensor> output_parameters() const { return {output_->weight, skip_D_}; }

  torch::Tensor forward(const torch::Tensor& x_BTD, const Plan& plan, std::span<const torch::Tensor> state,
                        std::vector<torch::Tensor>& final_state) {
    const torch::ScalarType dtype = state[0].scalar_type();
    if (!x_BTD.is_cuda()) return learnt(written(x_BTD, dtype), x_BTD, plan, state[0], final_state);
    const WrittenPairs pairs = written_pairs(x_BTD);
    const torch::Tensor h0_BN = torch::view_as_complex(state[0]);
    if (PlainOperations::on() ||
        !cuda::supports_paired_linear_recurrence(pairs.factors_N, pairs.b_N2, h0_BN, plan.lengths_B))
      return learnt(in_type(pairs, dtype), x_BTD, plan, state[0], final_state);
    const auto [h_BTN2, last_BN] = cuda::paired_linear_recurrence(pairs.factors_N, pairs.b_N2, h0_BN, plan.lengths_B);
    final_state.push_back(torch::view_as_real(last_BN));
    return read(h_BTN2, x_BTD);
  }

  torch::Tensor step(const torch::Tensor& x_BD, const StepPlan&, std::span<const torch::Tensor> state, LayerView*) {
    const auto [factors_N, b_BN] = written(x_BD, state[0].scalar_type());
    torch::Tensor h_BN = torch::view_as_complex(state[0]);
    h_BN.mul_(factors_N).add_(b_BN);
    return read(state[0], x_BD);
  }

 protected:
  // input_deviation, output_deviation: of real and imaginary parts of the first B and C. The first D is N(0, 1).
  template <class Options>
  ComplexMixer(const Options& options, double input_deviation, double output_deviation)
      : input_(register_module("input", normal_map(options.width, 2 * options.recurrent_width(), input_deviation))),
        output_(register_module("output", normal_map(2 * options.recurrent_width(), options.width, output_deviation))),
        skip_D_(register_parameter("skip", torch::randn({options.width}))) {}

  torch::nn::Linear input_, output_;

 private:
  const Derived& derived() const { return static_cast<const Derived&>(*this); }

  // The factors a, and s (B x) in the state's type, complex.
  struct Written {
    torch::Tensor factors_N, b_N;  // [..., N]
  };
  // The same on a GPU as pairs in the input's type.
  struct WrittenPairs {
    torch::Tensor factors_N, b_N2;  // [..., N, 2]
  };
  Written written(const torch::Tensor& x, torch::ScalarType dtype) const {
    if (x.is_cuda()) return in_type(written_pairs(x), dtype);
    const ComplexRecurrence of = derived().recurrence();
    return {of.factors_N, as_complex(in_pairs(apply_linear(input_, x)), dtype) * of.input_scale_N};
  }
  // (s B) x, which saves three passes over what is written; acting keeps s B for as long as the weights stay.
  WrittenPairs written_pairs(const torch::Tensor& x) const {
    const std::vector<torch::Tensor> made = cuda::PreparedWeights::made(this->parameters(), [this] {
      const ComplexRecurrence of = derived().recurrence();
      return std::vector<torch::Tensor>{of.factors_N, scaled(input_->weight, of.input_scale_N)};
    });
    return {made[0], in_pairs(apply_weight(made[1], x))};
  }
  static Written in_type(const WrittenPairs& pairs, torch::ScalarType dtype) {
    return {pairs.factors_N, as_complex(pairs.b_N2, dtype)};
  }
  static torch::Tensor as_complex(const torch::Tensor& pairs_N2, torch::ScalarType dtype) {
    return torch::view_as_complex(pairs_N2.to(dtype).contiguous());
  }
  static torch::Tensor in_pairs(const torch::Tensor& x) { return x.unflatten(-1, {-1, 2}); }
  // The rows of a complex map, pairs of real ones, each times its own number.
  static torch::Tensor scaled(const torch::Tensor& map_XD, const torch::Tensor& scale_N) {
    const torch::Tensor pairs_N2D = map_XD.unflatten(0, {-1, 2});
    if (!scale_N.is_complex()) return (pairs_N2D * scale_N.view({-1, 1, 1})).flatten(0, 1);
    const torch::Tensor scale_N2 = torch::view_as_real(scale_N);
    const torch::Tensor re_N1 = scale_N2.narrow(1, 0, 1), im_N1 = scale_N2.narrow(1, 1, 1),
                        re_ND = pairs_N2D.select(1, 0), im_ND = pairs_N2D.select(1, 1);
    return torch::stack({re_N1 * re_ND - im_N1 * im_ND, re_N1 * im_ND + im_N1 * re_ND}, 1).flatten(0, 1);
  }

  torch::Tensor learnt(const Written& input, const torch::Tensor& x_BTD, const Plan& plan,
                       const torch::Tensor& state_BN2, std::vector<torch::Tensor>& final_state) {
    const torch::Tensor h_BTN = recur(input.factors_N, input.b_N, torch::view_as_complex(state_BN2), plan, final_state);
    final_state.back() = torch::view_as_real(final_state.back());
    return read(torch::view_as_real(h_BTN), x_BTD);
  }
  // Of states as pairs, [..., N, 2].
  torch::Tensor read(const torch::Tensor& h_N2, const torch::Tensor& x) {
    return add_scaled(apply_linear(output_, h_N2.flatten(-2)), skip_D_, x);
  }

  torch::Tensor skip_D_;
};

}  // namespace engram
