#include "memory/ops/recurrences/gated_rnn_cuda.h"

#include <c10/cuda/CUDAGuard.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/recurrences/gated_rnn/gated_rnn.h"
#include "memory/core/refusal.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/linear.h"
#include "nn/fused/rows.h"
#include "nn/fused/weights/side_work.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

__nv_bfloat16* halves(const Tensor& x) { return reinterpret_cast<__nv_bfloat16*>(x.data_ptr<at::BFloat16>()); }

// The tensors that both passes read.
struct Problem {
  Tensor recurrent_XD;      // bfloat16
  Tensor candidate_bias_D;  // float32, of the GRU
  Tensor length_B;          // int32
  std::int64_t linear;      // channels, of the Elman network

  GatedCell cell() const { return gated_cell_of(recurrent_XD); }
  GatedRnn at(const Tensor& h_BTD) const {
    const bool gru = candidate_bias_D.defined();
    return {cell(),
            static_cast<int>(h_BTD.size(0)),
            static_cast<int>(h_BTD.size(1)),
            static_cast<int>(h_BTD.size(2)),
            halves(recurrent_XD),
            gru ? candidate_bias_D.const_data_ptr<float>() : nullptr,
            length_B.const_data_ptr<int>(),
            static_cast<int>(linear)};
  }
};

GatedRnnSaved saved_of(const Tensor& h_before_BTD, const Tensor& gates, const Tensor& cells_BTD) {
  return {halves(h_before_BTD), reinterpret_cast<__half*>(gates.data_ptr<at::Half>()),
          cells_BTD.defined() ? cells_BTD.data_ptr<float>() : nullptr};
}

// b_n's gradient: the sum over all steps, float32 [D].
Tensor bias_gradient(const Tensor& d_candidate_SD, SideWork& side) {
  if (d_candidate_SD.size(1) % kVectorElements == 0) return column_sums(d_candidate_SD, side);
  Tensor sum_D;
  side.run([&] { sum_D = d_candidate_SD.sum(0, /*keepdim=*/false, torch::kFloat32); });
  return sum_D;
}

class GatedRnnFunction : public torch::autograd::Function<GatedRnnFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& gates_given, const Tensor& recurrent_given,
                        const Tensor& candidate_bias_given, const Tensor& length_B, std::int64_t linear) {
    const c10::cuda::CUDAGuard guard(gates_given.device());
    const Tensor gates_BTX = gates_given.contiguous();
    const std::int64_t width = recurrent_given.size(1);
    const bool gru = candidate_bias_given.numel() > 0;
    const Problem problem{recurrent_given.to(torch::kBFloat16).contiguous(),
                          gru ? candidate_bias_given.contiguous() : Tensor(), length_B, linear};
    std::vector<std::int64_t> shape = gates_BTX.sizes().vec();
    shape.back() = width;
    const Tensor h_BTD = torch::empty(shape, gates_BTX.options()), h_before_BTD = torch::empty_like(h_BTD);
    const GatedCell cell = problem.cell();
    const Tensor cells_BTD =
        cell == GatedCell::kLstm ? torch::empty(shape, gates_BTX.options().dtype(torch::kFloat32)) : Tensor();
    shape.back() = saved_numbers_of(cell) * width;
    const Tensor saved_gates = torch::empty(shape, gates_BTX.options().dtype(torch::kFloat16));
    gated_rnn_forward(problem.at(h_BTD), halves(gates_BTX), halves(h_BTD),
                      saved_of(h_before_BTD, saved_gates, cells_BTD), current_stream());
    context->saved_data["linear"] = linear;
    context->save_for_backward(
        {problem.recurrent_XD, problem.candidate_bias_D, length_B, h_before_BTD, saved_gates, cells_BTD});
    return h_BTD;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "gated cells on a GPU have no second derivative");
    const variable_list saved = context->get_saved_variables();
    const Problem problem{saved[0], saved[1], saved[2], context->saved_data["linear"].toInt()};
    const Tensor& h_before_BTD = saved[3];
    const c10::cuda::CUDAGuard guard(h_before_BTD.device());
    const std::int64_t width = h_before_BTD.size(2);
    const bool gru = problem.candidate_bias_D.defined();
    const Tensor d_h_BTD = gradient[0].to(torch::kBFloat16).contiguous();
    const Tensor d_gates_BTX =
        torch::empty({d_h_BTD.size(0), d_h_BTD.size(1), problem.recurrent_XD.size(0)}, d_h_BTD.options());
    const Tensor d_candidate_BTD = gru ? torch::empty_like(d_h_BTD) : Tensor();
    gated_rnn_backward(problem.at(h_before_BTD), saved_of(h_before_BTD, saved[4], saved[5]), halves(d_h_BTD),
                       halves(d_gates_BTX), gru ? halves(d_candidate_BTD) : nullptr, current_stream());
    // U's gradient is the sum over all steps of d_u times h_{t-1}. It and b_n's are the side's, beside the input's.
    const Tensor h_before_SD = h_before_BTD.view({-1, width}), d_gates_SX = d_gates_BTX.view({-1, d_gates_BTX.size(2)});
    SideWork side(SideStreamOf::kWeights);
    const Tensor d_recurrent_XD =
        torch::empty(problem.recurrent_XD.sizes(), h_before_SD.options().dtype(torch::kFloat32));
    Tensor d_bias_D;
    side.run([&] {
      const auto add = [&](const Tensor& d_u, std::int64_t first) {
        d_recurrent_XD.narrow(0, first, d_u.size(1)).copy_(product_float(d_u.t(), h_before_SD));
      };
      if (gru) {
        add(d_gates_SX.narrow(1, 0, 2 * width), 0);
        add(d_candidate_BTD.view({-1, width}), 2 * width);
      } else {
        add(d_gates_SX, 0);
      }
    });
    if (gru) d_bias_D = bias_gradient(d_candidate_BTD.view({-1, width}), side);
    side.keep({d_gates_BTX, d_candidate_BTD, h_before_BTD});
    side.finish({d_recurrent_XD, d_bias_D}, /*of_leaves=*/false);
    return {d_gates_BTX, d_recurrent_XD, d_bias_D, Tensor(), Tensor()};
  }
};

}  // namespace

Support supports_gated_rnn(GatedCell cell, std::int64_t width, torch::ScalarType dtype, torch::Device device) {
  if (!device.is_cuda()) return refusal("the kernels are for a GPU");
  if (dtype != torch::kBFloat16) return refusal("it is cuDNN's with products in ", dtype);
  if (width > std::numeric_limits<int>::max()) return refusal("a width of ", width);
  return engram::supports_gated_rnn(cell, static_cast<int>(width));
}

Tensor gated_rnn(const GatedRnnWeights& weights, const Tensor& input_BTD, const Tensor& lengths_B) {
  const Support support =
      supports_gated_rnn(weights.cell(), weights.width(), input_BTD.scalar_type(), input_BTD.device());
  TORCH_CHECK(support, "gated cells: ", support.reason());
  TORCH_CHECK(input_BTD.numel() > 0 && input_BTD.size(0) <= std::numeric_limits<int>::max() &&
                  input_BTD.size(1) <= std::numeric_limits<int>::max(),
              "gated cells: an input ", input_BTD.sizes());
  const auto [bias_X, candidate_bias_D] = weights.biases();
  std::vector<std::int64_t> shape = input_BTD.sizes().vec();
  shape.back() = weights.input_XI.size(0);
  const Tensor gates_BTX =
      from_rows(linear_layers(to_rows(input_BTD), {{weights.input_XI, bias_X, Activation::kNone}}), shape);
  return GatedRnnFunction::apply(gates_BTX, weights.recurrent_XD, candidate_bias_D, lengths_B.to(torch::kInt32),
                                 weights.linear);
}

}  // namespace engram::cuda
