#include "memory/ops/recurrences/min_gru_gates_cuda.h"

#include <c10/cuda/CUDAGuard.h>

#include <cstdint>
#include <limits>

#include "kernels/recurrences/min_gru/min_gru.h"
#include "memory/core/refusal.h"
#include "memory/ops/recurrences/gate_rows.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

MinGruGates gates_of(const GateRows& rows, const Tensor& bias_D) {
  return {.rows = rows.rows(),
          .width = rows.width(),
          .dtype = kernel_dtype(rows.first_MD),
          .stride = rows.stride(),
          .gate = rows.first_MD.const_data_ptr(),
          .candidate = rows.second_MD.const_data_ptr(),
          .bias = bias_D.const_data_ptr<float>()};
}

class MinGruGatesFunction : public torch::autograd::Function<MinGruGatesFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& gate, const Tensor& candidate,
                               const Tensor& bias_given) {
    const c10::cuda::CUDAGuard guard(gate.device());
    const Tensor bias_D = bias_given.contiguous();
    const Tensor keep = torch::empty(gate.sizes(), bias_D.options()), write = torch::empty_like(keep);
    const GateRows rows(gate, candidate);
    min_gru_gates_forward(gates_of(rows, bias_D), keep.data_ptr<float>(), write.data_ptr<float>(), current_stream());
    context->save_for_backward({gate, candidate, bias_D});
    return {keep, write};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "minGRU's gates on a GPU have no second derivative");
    const variable_list saved = context->get_saved_variables();
    const Tensor &gate = saved[0], &candidate = saved[1], &bias_D = saved[2];
    const c10::cuda::CUDAGuard guard(gate.device());
    const GateRows rows(gate, candidate);
    const MinGruGates gates = gates_of(rows, bias_D);
    const Tensor d_keep = gradients[0].contiguous(), d_write = gradients[1].contiguous();
    const GateGradients d(rows);
    const Tensor d_bias_D = torch::empty_like(bias_D);
    const Tensor scratch = scratch_bytes(min_gru_gates_backward_scratch_bytes(gates), gate);
    min_gru_gates_backward(gates, d_keep.const_data_ptr<float>(), d_write.const_data_ptr<float>(),
                           {.stride = d.stride(),
                            .gate = d.first_MD.data_ptr(),
                            .candidate = d.second_MD.data_ptr(),
                            .bias = d_bias_D.data_ptr<float>()},
                           scratch.data_ptr(), current_stream());
    return {d.first_MD.view(gate.sizes()), d.second_MD.view(gate.sizes()), d_bias_D};
  }
};

}  // namespace

Support supports_min_gru_gates(const Tensor& gate, const Tensor& candidate, const Tensor& bias_D) {
  if (!gate.is_cuda() || (gate.scalar_type() != torch::kFloat32 && gate.scalar_type() != torch::kBFloat16))
    return refusal("the gate is not in float32 or bfloat16 on a GPU");
  if (candidate.device() != gate.device() || candidate.scalar_type() != gate.scalar_type())
    return refusal("the candidate is not in the gate's type on its GPU");
  if (bias_D.device() != gate.device() || bias_D.scalar_type() != torch::kFloat32)
    return refusal("the bias is not in float32 on the gate's GPU");
  if (gate.dim() < 1 || gate.numel() == 0 || candidate.sizes() != gate.sizes() ||
      bias_D.sizes() != torch::IntArrayRef({gate.size(-1)}))
    return refusal("gate ", gate.sizes(), ", candidate ", candidate.sizes(), " and bias ", bias_D.sizes(),
                   " are not [..., D], [..., D] and [D], or they are empty");
  if (gate.numel() > std::numeric_limits<int>::max()) return refusal("the gate ", gate.sizes(), " is too large");
  return {};
}

RecurrenceUpdate min_gru_gates(const Tensor& gate, const Tensor& candidate, const Tensor& bias_D) {
  const Support support = supports_min_gru_gates(gate, candidate, bias_D);
  TORCH_CHECK(support, "minGRU's gates: ", support.reason());
  const variable_list made = MinGruGatesFunction::apply(gate, candidate, bias_D);
  return {made[0], made[1]};
}

}  // namespace engram::cuda
