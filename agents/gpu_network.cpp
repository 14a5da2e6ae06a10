#include "agents/gpu_network.h"

#include "kernels/dense_convolution/dense_convolution.h"
#include "nn/cuda_support.h"
#include "nn/fused_mlp.h"
#include "nn/fused_rows.h"

namespace engram {
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

// relu(convolution) of images [channels, height, width] as rows; the result as rows of [outputs, height, width].
struct ConvolvedRows {
  Tensor x_MP;
  ConvolutionShape shape;

  ConvolvedRows(const Tensor& input_MP, std::int64_t height, std::int64_t width, torch::nn::Conv2d& convolution)
      : shape{.outputs = static_cast<int>(convolution->weight.size(0)),
              .channels = static_cast<int>(convolution->weight.size(1)),
              .height = static_cast<int>(height),
              .width = static_cast<int>(width),
              .kernel_height = static_cast<int>(convolution->weight.size(2)),
              .kernel_width = static_cast<int>(convolution->weight.size(3))} {
    const variable_list dense = DenseConvolutionFunction::apply(convolution->weight, convolution->bias, shape);
    x_MP = fused::linear(input_MP, dense[0], dense[1], /*relu=*/true);
  }
};

constexpr std::int64_t kMaxOutputs = 1024;

}  // namespace

bool GpuEncoder::takes(const Tensor& observation_MX, const Tensor& weight) {
  // The input of an image's last layer is the output of its second convolution.
  return observation_MX.is_cuda() && weight.scalar_type() == torch::kFloat32 && weight.size(0) <= kMaxOutputs &&
         (observation_MX.scalar_type() == torch::kFloat32 || weight.size(1) <= kMaxOutputs);
}

GpuEncoder::GpuEncoder(const Tensor& observation_MX, torch::ScalarType dtype)
    : input_MP_(observation_MX.scalar_type() == torch::kUInt8 ? fused::image_rows(observation_MX, dtype)
                                                              : fused::to_rows(observation_MX.to(dtype))) {}

Tensor GpuEncoder::image(const std::vector<std::int64_t>& shape, torch::nn::Conv2d convolution1,
                         torch::nn::Conv2d convolution2, torch::nn::Linear linear) const {
  const ConvolvedRows first(input_MP_, shape[1], shape[2], convolution1);
  const ConvolvedRows second(first.x_MP, first.shape.output_height(), first.shape.output_width(), convolution2);
  return fused::from_rows(fused::linear(second.x_MP, linear->weight, linear->bias, /*relu=*/false),
                          {input_MP_.size(0), linear->weight.size(0)});
}

Tensor GpuEncoder::vector(torch::nn::Linear linear) const {
  return fused::from_rows(fused::linear(input_MP_, linear->weight, linear->bias, /*relu=*/true),
                          {input_MP_.size(0), linear->weight.size(0)});
}

bool gpu_heads_take(const Tensor& features, const HeadImpl::Layers& head) {
  const std::int64_t hidden = head.hidden1->weight.size(0);
  return features.is_cuda() && head.hidden1->weight.scalar_type() == torch::kFloat32 && hidden % 8 == 0 &&
         3 * hidden <= fused::kMaxHeadColumns;
}

GpuHeads gpu_heads(const Tensor& features, const std::vector<HeadImpl::Layers>& learning,
                   const std::vector<HeadImpl::Layers>& targets) {
  const Tensor features_MP = fused::to_rows(features);
  const auto weights_of = [](const std::vector<HeadImpl::Layers>& heads) {
    std::vector<fused::HeadWeights> weights;
    for (const HeadImpl::Layers& head : heads)
      weights.push_back({head.hidden1->weight, head.hidden1->bias, head.hidden2->weight, head.hidden2->bias,
                         head.output->weight, head.output->bias});
    return weights;
  };
  fused::HeadOutputs outputs = fused::heads(features_MP, weights_of(learning), weights_of(targets));
  for (std::vector<Tensor>* heads : {&outputs.learning, &outputs.targets})
    for (Tensor& output : *heads) {
      std::vector<std::int64_t> shape = features.sizes().vec();
      shape.back() = output.size(1);
      output = output.view(shape);
    }
  return {std::move(outputs.learning), std::move(outputs.targets)};
}

}  // namespace engram
