#include "memory/ops/recurrences/linear_recurrence_cuda.h"

#include <c10/cuda/CUDAGuard.h>

#include <cstdint>
#include <limits>

#include "kernels/recurrences/linear_recurrence/linear_recurrence.h"
#include "memory/core/refusal.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of states, and of an a without time.
torch::ScalarType state_type(const Tensor& b_BTD) {
  return b_BTD.scalar_type() == torch::kComplexFloat ? torch::kComplexFloat : torch::kFloat32;
}

RecurrenceNumber number_of(const Tensor& b_BTD) {
  if (b_BTD.scalar_type() == torch::kFloat32) return RecurrenceNumber::kFloat32;
  return b_BTD.scalar_type() == torch::kBFloat16 ? RecurrenceNumber::kBfloat16 : RecurrenceNumber::kComplex64;
}

// What memory holds of a tensor that autograd may have left conjugated, negated or strided.
Tensor stored(const Tensor& x) { return x.resolve_conj().resolve_neg().contiguous(); }

LinearRecurrence recurrence_of(const Tensor& a, const Tensor& h_BTD, const Tensor& h0_BD) {
  return {.batch = static_cast<int>(h_BTD.size(0)),
          .time = static_cast<int>(h_BTD.size(1)),
          .width = static_cast<int>(h_BTD.size(2)),
          .number = number_of(h_BTD),
          .constant = a.dim() == 1,
          .a = a.data_ptr(),
          .h0_BD = h0_BD.data_ptr(),
          .length_B = nullptr};
}

class LinearRecurrenceFunction : public torch::autograd::Function<LinearRecurrenceFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& a_given, const Tensor& b_given,
                        const Tensor& h0_given) {
    const c10::cuda::CUDAGuard guard(b_given.device());
    const Tensor a = stored(a_given), b_BTD = stored(b_given), h0_BD = stored(h0_given);
    const Tensor h_BTD = torch::empty_like(b_BTD);
    linear_recurrence_forward(recurrence_of(a, h_BTD, h0_BD), b_BTD.data_ptr(), h_BTD.data_ptr(), /*last_BD=*/nullptr,
                              current_stream());
    context->save_for_backward({a, h0_BD, h_BTD});
    return h_BTD;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "the linear recurrence on a GPU has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const Tensor &a = saved[0], &h0_BD = saved[1], &h_BTD = saved[2];
    const c10::cuda::CUDAGuard guard(h_BTD.device());
    const Tensor d_h_BTD = stored(gradient[0]);
    const Tensor d_a = torch::empty_like(a), d_b_BTD = torch::empty_like(h_BTD), d_h0_BD = torch::empty_like(h0_BD);
    const LinearRecurrence recurrence = recurrence_of(a, h_BTD, h0_BD);
    const Tensor scratch = scratch_bytes(linear_recurrence_backward_scratch_bytes(recurrence), h_BTD);
    linear_recurrence_backward(recurrence, {h_BTD.data_ptr(), d_h_BTD.data_ptr(), /*last_gradient_BD=*/nullptr},
                               {d_a.data_ptr(), d_b_BTD.data_ptr(), d_h0_BD.data_ptr()}, scratch.data_ptr(),
                               current_stream());
    return {d_a, d_b_BTD, d_h0_BD};
  }
};

LinearRecurrence paired_recurrence_of(const Tensor& a_D, const Tensor& h_BTD2, const Tensor& h0_BD,
                                      const Tensor& lengths_B) {
  return {.batch = static_cast<int>(h_BTD2.size(0)),
          .time = static_cast<int>(h_BTD2.size(1)),
          .width = static_cast<int>(h_BTD2.size(2)),
          .number = RecurrenceNumber::kComplexBfloat16,
          .constant = true,
          .a = a_D.data_ptr(),
          .h0_BD = h0_BD.data_ptr(),
          .length_B = lengths_B.const_data_ptr<std::int64_t>()};
}

class PairedRecurrenceFunction : public torch::autograd::Function<PairedRecurrenceFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& a_given, const Tensor& b_given,
                               const Tensor& h0_given, const Tensor& lengths_given) {
    const c10::cuda::CUDAGuard guard(b_given.device());
    const Tensor a_D = stored(a_given), b_BTD2 = b_given.contiguous(), h0_BD = stored(h0_given),
                 lengths_B = lengths_given.contiguous();
    const Tensor h_BTD2 = torch::empty_like(b_BTD2), last_BD = torch::empty_like(h0_BD);
    linear_recurrence_forward(paired_recurrence_of(a_D, h_BTD2, h0_BD, lengths_B), b_BTD2.data_ptr(), h_BTD2.data_ptr(),
                              last_BD.data_ptr(), current_stream());
    context->save_for_backward({a_D, h0_BD, h_BTD2, lengths_B});
    context->set_materialize_grads(false);
    return {h_BTD2, last_BD};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "the linear recurrence on a GPU has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const Tensor &a_D = saved[0], &h0_BD = saved[1], &h_BTD2 = saved[2], &lengths_B = saved[3];
    const c10::cuda::CUDAGuard guard(h_BTD2.device());
    const Tensor d_h_BTD2 = gradients[0].defined() ? gradients[0].contiguous() : torch::zeros_like(h_BTD2),
                 d_last_BD = gradients[1].defined() ? stored(gradients[1]) : Tensor();
    const Tensor d_a_D = torch::empty_like(a_D), d_b_BTD2 = torch::empty_like(h_BTD2),
                 d_h0_BD = torch::empty_like(h0_BD);
    const LinearRecurrence recurrence = paired_recurrence_of(a_D, h_BTD2, h0_BD, lengths_B);
    const Tensor scratch = scratch_bytes(linear_recurrence_backward_scratch_bytes(recurrence), h_BTD2);
    linear_recurrence_backward(
        recurrence, {h_BTD2.data_ptr(), d_h_BTD2.data_ptr(), d_last_BD.defined() ? d_last_BD.data_ptr() : nullptr},
        {d_a_D.data_ptr(), d_b_BTD2.data_ptr(), d_h0_BD.data_ptr()}, scratch.data_ptr(), current_stream());
    return {d_a_D, d_b_BTD2, d_h0_BD, Tensor()};
  }
};

}  // namespace

Support supports_linear_recurrence(const Tensor& a, const Tensor& b_BTD, const Tensor& h0_BD) {
  if (!b_BTD.is_cuda() || a.device() != b_BTD.device() || h0_BD.device() != b_BTD.device())
    return refusal("the tensors are not on one GPU");
  if (b_BTD.dim() != 3 || h0_BD.sizes() != torch::IntArrayRef({b_BTD.size(0), b_BTD.size(2)}) ||
      (a.sizes() != b_BTD.sizes() && a.sizes() != torch::IntArrayRef({b_BTD.size(2)})))
    return refusal("a ", a.sizes(), ", b ", b_BTD.sizes(), " and h0 ", h0_BD.sizes(),
                   " are not [B, T, D] or [D], [B, T, D] and [B, D]");
  if (b_BTD.numel() == 0) return refusal("b ", b_BTD.sizes(), " is empty");
  for (const std::int64_t size : b_BTD.sizes())
    if (size > std::numeric_limits<int>::max() / 2) return refusal("b ", b_BTD.sizes(), " is too long");
  if (b_BTD.scalar_type() != torch::kFloat32 && b_BTD.scalar_type() != torch::kBFloat16 &&
      b_BTD.scalar_type() != torch::kComplexFloat)
    return refusal("b is ", b_BTD.scalar_type(), ", not float32, bfloat16 or complex64");
  const torch::ScalarType a_type = a.dim() == 1 ? state_type(b_BTD) : b_BTD.scalar_type();
  if (a.scalar_type() != a_type) return refusal("a is ", a.scalar_type(), ", not ", a_type);
  if (h0_BD.scalar_type() != state_type(b_BTD) && h0_BD.scalar_type() != b_BTD.scalar_type())
    return refusal("h0 is ", h0_BD.scalar_type(), ", not ", state_type(b_BTD));
  if (!a.is_contiguous() || !b_BTD.is_contiguous() || !h0_BD.is_contiguous())
    return refusal("a, b and h0 are not all contiguous");
  return {};
}

Tensor linear_recurrence(const Tensor& a, const Tensor& b_BTD, const Tensor& h0_BD) {
  const Support support = supports_linear_recurrence(a, b_BTD, h0_BD);
  TORCH_CHECK(support, "linear recurrence: ", support.reason());
  return LinearRecurrenceFunction::apply(a, b_BTD, h0_BD.to(state_type(b_BTD)));
}

Support supports_paired_linear_recurrence(const Tensor& a_D, const Tensor& b_BTD2, const Tensor& h0_BD,
                                          const Tensor& lengths_B) {
  for (const Tensor& x : {a_D, h0_BD, lengths_B})
    if (!b_BTD2.is_cuda() || x.device() != b_BTD2.device()) return refusal("the tensors are not on one GPU");
  if (b_BTD2.scalar_type() != torch::kBFloat16 || a_D.scalar_type() != torch::kComplexFloat ||
      h0_BD.scalar_type() != torch::kComplexFloat || lengths_B.scalar_type() != torch::kInt64)
    return refusal("b, a, h0 and the lengths are ", b_BTD2.scalar_type(), ", ", a_D.scalar_type(), ", ",
                   h0_BD.scalar_type(), " and ", lengths_B.scalar_type(), ", not bfloat16, complex64 and int64");
  if (b_BTD2.dim() != 4 || b_BTD2.size(3) != 2 || a_D.sizes() != torch::IntArrayRef({b_BTD2.size(2)}) ||
      h0_BD.sizes() != torch::IntArrayRef({b_BTD2.size(0), b_BTD2.size(2)}) ||
      lengths_B.sizes() != torch::IntArrayRef({b_BTD2.size(0)}))
    return refusal("a ", a_D.sizes(), ", b ", b_BTD2.sizes(), ", h0 ", h0_BD.sizes(), " and lengths ",
                   lengths_B.sizes(), " are not [D], [B, T, D, 2], [B, D] and [B]");
  if (b_BTD2.numel() == 0) return refusal("b ", b_BTD2.sizes(), " is empty");
  for (const std::int64_t size : b_BTD2.sizes())
    if (size > std::numeric_limits<int>::max() / 2) return refusal("b ", b_BTD2.sizes(), " is too long");
  return {};
}

PairedStates paired_linear_recurrence(const Tensor& a_D, const Tensor& b_BTD2, const Tensor& h0_BD,
                                      const Tensor& lengths_B) {
  const Support support = supports_paired_linear_recurrence(a_D, b_BTD2, h0_BD, lengths_B);
  TORCH_CHECK(support, "paired linear recurrence: ", support.reason());
  const variable_list made = PairedRecurrenceFunction::apply(a_D, b_BTD2, h0_BD, lengths_B);
  return {made[0], made[1]};
}

}  // namespace engram::cuda
