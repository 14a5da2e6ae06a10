#include "memory/ops/recurrences/rg_lru_gates_cuda.h"

#include <c10/cuda/CUDAGuard.h>

#include <limits>
#include <optional>

#include "kernels/recurrences/rg_lru/rg_lru.h"
#include "memory/core/refusal.h"
#include "memory/ops/recurrences/gate_rows.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

RgLruGates gates_of(const GateRows& rows, const Tensor& u, const Tensor& decay_D, const Tensor& is_first) {
  return {.rows = rows.rows(),
          .width = rows.width(),
          .dtype = kernel_dtype(rows.first_MD),
          .stride = rows.stride(),
          .recurrence_logit = rows.first_MD.const_data_ptr(),
          .input_logit = rows.second_MD.const_data_ptr(),
          .u = u.const_data_ptr<float>(),
          .decay = decay_D.const_data_ptr<float>(),
          .is_first = is_first.defined() ? is_first.const_data_ptr<bool>() : nullptr};
}

class RgLruGatesFunction : public torch::autograd::Function<RgLruGatesFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& recurrence_logit, const Tensor& input_logit,
                               const Tensor& u_given, const Tensor& decay_given,
                               const std::optional<Tensor>& first_given) {
    const c10::cuda::CUDAGuard guard(u_given.device());
    const Tensor u = u_given.contiguous(), decay_D = decay_given.contiguous(),
                 is_first = first_given ? first_given->contiguous() : Tensor();
    const Tensor keep = torch::empty_like(u), write = torch::empty_like(u);
    const GateRows rows(recurrence_logit, input_logit);
    rg_lru_gates_forward(gates_of(rows, u, decay_D, is_first), keep.data_ptr<float>(), write.data_ptr<float>(),
                         current_stream());
    context->save_for_backward({recurrence_logit, input_logit, u, decay_D, is_first});
    return {keep, write};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "RG-LRU's gates on a GPU have no second derivative");
    const variable_list saved = context->get_saved_variables();
    const Tensor &recurrence_logit = saved[0], &input_logit = saved[1], &u = saved[2], &decay_D = saved[3];
    const c10::cuda::CUDAGuard guard(u.device());
    const GateRows rows(recurrence_logit, input_logit);
    const RgLruGates gates = gates_of(rows, u, decay_D, saved[4]);
    const Tensor d_keep = gradients[0].contiguous(), d_write = gradients[1].contiguous();
    const GateGradients d(rows);
    const Tensor d_u = torch::empty_like(u), d_decay_D = torch::empty_like(decay_D);
    const Tensor scratch = scratch_bytes(rg_lru_gates_backward_scratch_bytes(gates), u);
    rg_lru_gates_backward(gates, d_keep.const_data_ptr<float>(), d_write.const_data_ptr<float>(),
                          {.stride = d.stride(),
                           .recurrence_logit = d.first_MD.data_ptr(),
                           .input_logit = d.second_MD.data_ptr(),
                           .u = d_u.data_ptr<float>(),
                           .decay = d_decay_D.data_ptr<float>()},
                          scratch.data_ptr(), current_stream());
    return {d.first_MD.view(recurrence_logit.sizes()), d.second_MD.view(input_logit.sizes()), d_u, d_decay_D, Tensor()};
  }
};

}  // namespace

Support supports_rg_lru_gates(const RgLruInput& in) {
  if (!in.u.is_cuda() || in.u.scalar_type() != torch::kFloat32 || in.decay_D.device() != in.u.device() ||
      in.decay_D.scalar_type() != torch::kFloat32)
    return refusal("u and the decay are not in float32 on one GPU");
  const torch::ScalarType type = in.recurrence_logit.scalar_type();
  for (const Tensor& logit : {in.recurrence_logit, in.input_logit})
    if (logit.device() != in.u.device() || logit.scalar_type() != type ||
        (type != torch::kFloat32 && type != torch::kBFloat16))
      return refusal("the logits are not of one type, float32 or bfloat16, on the GPU of u");
  if (in.u.dim() < 1 || in.u.numel() == 0 || in.recurrence_logit.sizes() != in.u.sizes() ||
      in.input_logit.sizes() != in.u.sizes() || in.decay_D.sizes() != torch::IntArrayRef({in.u.size(-1)}))
    return refusal("logits ", in.recurrence_logit.sizes(), " and ", in.input_logit.sizes(), ", u ", in.u.sizes(),
                   " and decay ", in.decay_D.sizes(), " are not [..., D], thrice, and [D], or they are empty");
  if (in.is_first.defined() && (in.is_first.device() != in.u.device() || in.is_first.scalar_type() != torch::kBool ||
                                in.is_first.numel() * in.u.size(-1) != in.u.numel()))
    return refusal("first rows ", in.is_first.sizes(), " are not bool, [..., 1], on the GPU of u");
  if (in.u.numel() > std::numeric_limits<int>::max()) return refusal("u ", in.u.sizes(), " is too large");
  return {};
}

RecurrenceUpdate rg_lru_gates(const RgLruInput& in) {
  const Support support = supports_rg_lru_gates(in);
  TORCH_CHECK(support, "RG-LRU's gates: ", support.reason());
  const variable_list made =
      RgLruGatesFunction::apply(in.recurrence_logit, in.input_logit, in.u, in.decay_D,
                                in.is_first.defined() ? std::optional<Tensor>(in.is_first) : std::nullopt);
  return {made[0], made[1]};
}

}  // namespace engram::cuda
