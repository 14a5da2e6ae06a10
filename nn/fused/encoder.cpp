#include "nn/fused/encoder.h"

#include <cstddef>

#include "kernels/block/dense_convolution/dense_convolution.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/linear.h"
#include "nn/fused/prepared_weights.h"
#include "nn/fused/rows.h"
#include "nn/fused/support.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A convolution of a small image as a linear layer. (cuDNN's gradient of a convolution's weight is summed in no fixed
// order.)
class DenseConvolutionFunction : public torch::autograd::Function<DenseConvolutionFunction> {
 public:
  // Weight [outputs, inputs] and bias [outputs].
  static variable_list forward(AutogradContext* context, const Tensor& weight, const Tensor& bias,
                               const ConvolutionShape& shape) {
    context->saved_data["shape"] = std::vector<std::int64_t>{shape.outputs, shape.channels,      shape.height,
                                                             shape.width,   shape.kernel_height, shape.kernel_width};
    const auto options = weight.options().requires_grad(false);
    const Tensor dense_weight = torch::empty({shape.rows(), shape.columns()}, options);
    const Tensor dense_bias = torch::empty({shape.rows()}, options);
    const Tensor own_weight = weight.detach().contiguous(), own_bias = bias.detach().contiguous();
    dense_convolution(shape, own_weight.data_ptr<float>(), own_bias.data_ptr<float>(), dense_weight.data_ptr<float>(),
                      dense_bias.data_ptr<float>(), current_stream());
    return {dense_weight, dense_bias};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const auto sizes = context->saved_data["shape"].toIntVector();
    const auto size = [&](std::size_t i) { return static_cast<int>(sizes[i]); };
    const ConvolutionShape shape{size(0), size(1), size(2), size(3), size(4), size(5)};
    const Tensor d_dense_weight = gradient[0].contiguous(), d_dense_bias = gradient[1].contiguous();
    const Tensor d_weight = torch::empty({shape.outputs, shape.channels, shape.kernel_height, shape.kernel_width},
                                         d_dense_weight.options());
    const Tensor d_bias = torch::empty({shape.outputs}, d_dense_bias.options());
    dense_convolution_backward(shape, d_dense_weight.data_ptr<float>(), d_dense_bias.data_ptr<float>(),
                               d_weight.data_ptr<float>(), d_bias.data_ptr<float>(), current_stream());
    return {d_weight, d_bias, Tensor()};
  }
};

// Of images [channels, height, width] as rows to rows of [outputs, height, width].
ConvolutionShape shape_of(const LayerWeights& convolution, int height, int width) {
  return {.outputs = static_cast<int>(convolution.weight.size(0)),
          .channels = static_cast<int>(convolution.weight.size(1)),
          .height = height,
          .width = width,
          .kernel_height = static_cast<int>(convolution.weight.size(2)),
          .kernel_width = static_cast<int>(convolution.weight.size(3))};
}

// An observation's rows in `dtype`, bytes divided by 255.
Tensor input_rows(const Tensor& observation_MX, torch::ScalarType dtype) {
  return observation_MX.scalar_type() == torch::kUInt8 ? image_rows(observation_MX, dtype)
                                                       : to_rows(observation_MX.to(dtype));
}

}  // namespace

Support supports_encoder(const EncoderSizes& sizes, torch::ScalarType dtype, torch::Device device) {
  if (Support on_device = supports_device(dtype, device); !on_device) return on_device;
  for (const std::int64_t outputs : sizes.convolution_outputs)
    if (Support own = at_most("a convolution's number of outputs", outputs, kMaxConvolutionOutputs); !own) return own;
  return {};
}

Tensor encode_image(const Tensor& observation_MX, torch::ScalarType dtype, const std::vector<std::int64_t>& shape,
                    const std::vector<LayerWeights>& convolutions, const LayerWeights& linear) {
  std::vector<LinearLayer> layers;
  auto height = static_cast<int>(shape[1]), width = static_cast<int>(shape[2]);
  for (const LayerWeights& convolution : convolutions) {
    const ConvolutionShape own = shape_of(convolution, height, width);
    const variable_list dense = PreparedWeights::made({convolution.weight, convolution.bias}, [convolution, own] {
      return DenseConvolutionFunction::apply(convolution.weight, convolution.bias, own);
    });
    layers.push_back({dense[0], dense[1], /*relu=*/true});
    height = own.output_height();
    width = own.output_width();
  }
  layers.push_back({linear.weight, linear.bias, /*relu=*/false});
  return from_rows(linear_layers(input_rows(observation_MX, dtype), layers),
                   {observation_MX.size(0), linear.weight.size(0)});
}

Tensor encode_vector(const Tensor& observation_MX, torch::ScalarType dtype, const LayerWeights& linear) {
  return from_rows(linear_layers(input_rows(observation_MX, dtype), {{linear.weight, linear.bias, /*relu=*/true}}),
                   {observation_MX.size(0), linear.weight.size(0)});
}

}  // namespace engram::cuda
