#include "memory/ops/short_convolution_cuda.h"

#include <c10/cuda/CUDAGuard.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "kernels/block/short_convolution/short_convolution.h"
#include "memory/core/refusal.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const float* floats_or_null(const Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }

ShortConvolutionInput input_of(const ShortConvolutionTensors& in) {
  return {.batch = static_cast<int>(in.x_BTC.size(0)),
          .time = static_cast<int>(in.x_BTC.size(1)),
          .channels = static_cast<int>(in.x_BTC.size(2)),
          .dtype = kernel_dtype(in.x_BTC),
          .x_BTC = in.x_BTC.const_data_ptr(),
          .state_BSC = in.state_BSC.const_data_ptr<float>(),
          .weight_CW = in.weight_CW.const_data_ptr<float>(),
          .bias_C = floats_or_null(in.bias_C),
          .length_B = in.lengths_B.const_data_ptr<std::int64_t>()};
}

class ShortConvolutionFunction : public torch::autograd::Function<ShortConvolutionFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x_BTC, const Tensor& state_BSC,
                               const Tensor& weight_CW, const std::optional<Tensor>& bias_C, const Tensor& lengths_B) {
    const c10::cuda::CUDAGuard guard(x_BTC.device());
    const ShortConvolutionTensors in{x_BTC.contiguous(), state_BSC.contiguous(), weight_CW.contiguous(),
                                     bias_C ? bias_C->contiguous() : Tensor(), lengths_B.contiguous()};
    const Tensor y_BTC = torch::empty(in.x_BTC.sizes(), in.state_BSC.options()),
                 last_BSC = torch::empty_like(in.state_BSC);
    short_convolution_forward(input_of(in), y_BTC.data_ptr<float>(), last_BSC.data_ptr<float>(), current_stream());
    context->save_for_backward({in.x_BTC, in.state_BSC, in.weight_CW, in.bias_C, in.lengths_B});
    context->set_materialize_grads(false);
    return {y_BTC, last_BSC};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "a short convolution on a GPU has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const ShortConvolutionTensors in{saved[0], saved[1], saved[2], saved[3], saved[4]};
    const c10::cuda::CUDAGuard guard(in.x_BTC.device());
    const Tensor d_y_BTC = gradients[0].defined() ? gradients[0].contiguous()
                                                  : torch::zeros(in.x_BTC.sizes(), in.state_BSC.options()),
                 d_last_BSC = gradients[1].defined() ? gradients[1].contiguous() : Tensor();
    const Tensor d_x_BTC = torch::empty_like(in.x_BTC), d_state_BSC = torch::empty_like(in.state_BSC),
                 d_weight_CW = torch::empty_like(in.weight_CW),
                 d_bias_C = in.bias_C.defined() ? torch::empty_like(in.bias_C) : Tensor();
    const ShortConvolutionInput input = input_of(in);
    const Tensor scratch = scratch_bytes(short_convolution_backward_scratch_bytes(input), in.x_BTC);
    short_convolution_backward(input, d_y_BTC.const_data_ptr<float>(), floats_or_null(d_last_BSC),
                               {d_x_BTC.data_ptr(), d_state_BSC.data_ptr<float>(), d_weight_CW.data_ptr<float>(),
                                d_bias_C.defined() ? d_bias_C.data_ptr<float>() : nullptr},
                               scratch.data_ptr(), current_stream());
    return {d_x_BTC, d_state_BSC, d_weight_CW, d_bias_C, Tensor()};
  }
};

}  // namespace

Support supports_short_convolution(const ShortConvolutionTensors& in) {
  const Tensor& x_BTC = in.x_BTC;
  if (!x_BTC.is_cuda() || (x_BTC.scalar_type() != torch::kFloat32 && x_BTC.scalar_type() != torch::kBFloat16))
    return refusal("x is not in float32 or bfloat16 on a GPU");
  for (const Tensor& x : {in.state_BSC, in.weight_CW, in.bias_C})
    if (x.defined() && (x.device() != x_BTC.device() || x.scalar_type() != torch::kFloat32))
      return refusal("state, weight and bias are not in float32 on the GPU of x");
  if (in.lengths_B.device() != x_BTC.device() || in.lengths_B.scalar_type() != torch::kInt64)
    return refusal("the lengths are not int64 on the GPU of x");
  if (x_BTC.dim() != 3 || x_BTC.numel() == 0) return refusal("x ", x_BTC.sizes(), " is not [B, T, C], or it is empty");
  const std::int64_t rows = x_BTC.size(0), channels = x_BTC.size(2);
  if (in.state_BSC.sizes() != torch::IntArrayRef({rows, kShortConvolutionWidth - 1, channels}) ||
      in.weight_CW.sizes() != torch::IntArrayRef({channels, kShortConvolutionWidth}) ||
      (in.bias_C.defined() && in.bias_C.sizes() != torch::IntArrayRef({channels})) ||
      in.lengths_B.sizes() != torch::IntArrayRef({rows}))
    return refusal("x ", x_BTC.sizes(), ", state ", in.state_BSC.sizes(), ", weight ", in.weight_CW.sizes(),
                   " and lengths ", in.lengths_B.sizes(), " are not [B, T, C], [B, 3, C], [C, 4] and [B]");
  if (x_BTC.numel() > std::numeric_limits<int>::max() / 2) return refusal("x ", x_BTC.sizes(), " is too large");
  return {};
}

ShortConvolution::Output short_convolution(const ShortConvolutionTensors& in) {
  const Support support = supports_short_convolution(in);
  TORCH_CHECK(support, "short convolution: ", support.reason());
  const variable_list all = ShortConvolutionFunction::apply(
      in.x_BTC, in.state_BSC, in.weight_CW, in.bias_C.defined() ? std::optional<Tensor>(in.bias_C) : std::nullopt,
      in.lengths_B);
  return {all[0], all[1]};
}

}  // namespace engram::cuda
