#include "memory/ops/cpu_short_convolution.h"

#include <ATen/Parallel.h>

#include <cstdint>
#include <optional>

#include "nn/cpu/kernels.h"
#include "nn/cpu/rows.h"

namespace engram::cpu {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// work(b, the row's convolution) for each row.
template <class Work>
void each_row(const Tensor& x, const Tensor& weight_WC, const Tensor& bias_C, const Work& work) {
  const std::int64_t width = weight_WC.size(0), row = x.size(1) * x.size(2);
  at::parallel_for(0, x.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      work(b, ShortConvolution{.steps = x.size(1) - width + 1,
                               .channels = x.size(2),
                               .width = width,
                               .x = x.const_data_ptr<float>() + b * row,
                               .weight = weight_WC.const_data_ptr<float>(),
                               .bias = bias_C.defined() ? bias_C.const_data_ptr<float>() : nullptr});
  });
}

class ShortConvolutionFunction : public torch::autograd::Function<ShortConvolutionFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_given, const Tensor& weight_CW,
                        const std::optional<Tensor>& bias_given) {
    const Tensor x = x_given.contiguous(), weight_WC = weight_CW.t().contiguous(),
                 bias_C = bias_given ? bias_given->contiguous() : Tensor();
    const std::int64_t steps = x.size(1) - weight_WC.size(0) + 1, channels = x.size(2);
    const Tensor y_BTC = torch::empty({x.size(0), steps, channels}, torch::kFloat32);
    each_row(x, weight_WC, bias_C, [&](std::int64_t b, const ShortConvolution& row) {
      kernels().short_convolution(row, y_BTC.data_ptr<float>() + b * steps * channels);
    });
    context->save_for_backward({x, weight_WC, bias_C});
    return y_BTC;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "a short convolution on a CPU has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight_WC = saved[1], &bias_C = saved[2], d_y_BTC = gradient[0].contiguous();
    const std::int64_t rows = x.size(0), width = weight_WC.size(0), channels = x.size(2);
    const Tensor d_x = torch::empty_like(x), d_weight_BWC = torch::empty({rows, width, channels}, torch::kFloat32),
                 d_bias_BC = bias_C.defined() ? torch::empty({rows, channels}, torch::kFloat32) : Tensor();
    each_row(x, weight_WC, bias_C, [&](std::int64_t b, const ShortConvolution& row) {
      kernels().short_convolution_backward(row, d_y_BTC.const_data_ptr<float>() + b * row.steps * channels,
                                           d_x.data_ptr<float>() + b * x.size(1) * channels,
                                           d_weight_BWC.data_ptr<float>() + b * width * channels,
                                           row.bias != nullptr ? d_bias_BC.data_ptr<float>() + b * channels : nullptr);
    });
    return {d_x, d_weight_BWC.sum(0).t(), bias_C.defined() ? d_bias_BC.sum(0) : Tensor()};
  }
};

}  // namespace

Tensor short_convolution(const Tensor& x, const Tensor& weight_CW, const Tensor& bias_C) {
  return ShortConvolutionFunction::apply(x, weight_CW, given(bias_C));
}

}  // namespace engram::cpu
