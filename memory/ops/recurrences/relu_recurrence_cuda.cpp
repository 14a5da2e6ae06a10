#include "memory/ops/recurrences/relu_recurrence_cuda.h"

#include <c10/cuda/CUDAGuard.h>

#include <limits>

#include "kernels/recurrences/relu_recurrence/relu_recurrence.h"
#include "memory/core/refusal.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

ReluRecurrence relu_recurrence_of(const Tensor& weight_D, const Tensor& h_BTD, const Tensor& h0_BD) {
  return {.batch = static_cast<int>(h_BTD.size(0)),
          .time = static_cast<int>(h_BTD.size(1)),
          .width = static_cast<int>(h_BTD.size(2)),
          .weight_D = weight_D.data_ptr<float>(),
          .h0_BD = h0_BD.data_ptr<float>()};
}

class ReluRecurrenceFunction : public torch::autograd::Function<ReluRecurrenceFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& weight_given, const Tensor& b_given,
                        const Tensor& h0_given) {
    const c10::cuda::CUDAGuard guard(b_given.device());
    const Tensor weight_D = weight_given.contiguous(), b_BTD = b_given.contiguous(), h0_BD = h0_given.contiguous();
    const Tensor h_BTD = torch::empty_like(b_BTD);
    relu_recurrence_forward(relu_recurrence_of(weight_D, h_BTD, h0_BD), b_BTD.data_ptr<float>(),
                            h_BTD.data_ptr<float>(), current_stream());
    context->save_for_backward({weight_D, h0_BD, h_BTD});
    return h_BTD;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "the relu recurrence on a GPU has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const Tensor &weight_D = saved[0], &h0_BD = saved[1], &h_BTD = saved[2];
    const c10::cuda::CUDAGuard guard(h_BTD.device());
    const Tensor d_h_BTD = gradient[0].contiguous();
    const Tensor d_weight_D = torch::empty_like(weight_D), d_b_BTD = torch::empty_like(h_BTD),
                 d_h0_BD = torch::empty_like(h0_BD);
    const ReluRecurrence recurrence = relu_recurrence_of(weight_D, h_BTD, h0_BD);
    const Tensor scratch = scratch_bytes(relu_recurrence_backward_scratch_bytes(recurrence), h_BTD);
    relu_recurrence_backward(recurrence, h_BTD.data_ptr<float>(), d_h_BTD.data_ptr<float>(),
                             {d_weight_D.data_ptr<float>(), d_b_BTD.data_ptr<float>(), d_h0_BD.data_ptr<float>()},
                             scratch.data_ptr(), current_stream());
    return {d_weight_D, d_b_BTD, d_h0_BD};
  }
};

}  // namespace

Support supports_relu_recurrence(const Tensor& weight_D, const Tensor& b_BTD, const Tensor& h0_BD) {
  for (const Tensor& x : {weight_D, b_BTD, h0_BD})
    if (!x.is_cuda() || x.device() != b_BTD.device() || x.scalar_type() != torch::kFloat32)
      return refusal("the tensors are not in float32 on one GPU");
  if (b_BTD.dim() != 3 || weight_D.sizes() != torch::IntArrayRef({b_BTD.size(2)}) ||
      h0_BD.sizes() != torch::IntArrayRef({b_BTD.size(0), b_BTD.size(2)}))
    return refusal("u ", weight_D.sizes(), ", b ", b_BTD.sizes(), " and h0 ", h0_BD.sizes(),
                   " are not [D], [B, T, D] and [B, D]");
  if (b_BTD.numel() == 0) return refusal("b ", b_BTD.sizes(), " is empty");
  if (h0_BD.numel() > std::numeric_limits<int>::max() / 2 || b_BTD.size(1) > std::numeric_limits<int>::max() / 2)
    return refusal("b ", b_BTD.sizes(), " is too large");
  return {};
}

Tensor relu_recurrence(const Tensor& weight_D, const Tensor& b_BTD, const Tensor& h0_BD) {
  const Support support = supports_relu_recurrence(weight_D, b_BTD, h0_BD);
  TORCH_CHECK(support, "relu recurrence: ", support.reason());
  return ReluRecurrenceFunction::apply(weight_D, b_BTD, h0_BD);
}

}  // namespace engram::cuda
