#include "agents/gpu_network.h"

#include "memory/fused_block.h"
#include "memory/fused_mlp.h"

namespace engram {
namespace {

using torch::Tensor;

// A convolution of a small image as a linear layer: every element of its weight stands wherever the kernel is laid.
// Made by a product with zeros and ones: cuDNN's convolutions may round float32 to TF32, and add up the weight's
// gradient in any order.
struct DenseConvolution {
  Tensor weight_OI, bias_O;
  std::vector<std::int64_t> output_shape;

  DenseConvolution(torch::nn::Conv2d& convolution, const std::vector<std::int64_t>& input_shape) {
    const Tensor& weight = convolution->weight;  // [outputs, channels, K, L]
    const std::int64_t outputs = weight.size(0), K = weight.size(2), L = weight.size(3);
    const std::int64_t channels = input_shape[0], height = input_shape[1], width = input_shape[2];
    const std::int64_t Y = height - K + 1, X = width - L + 1;
    output_shape = {outputs, Y, X};
    const auto options = weight.options().requires_grad(false);
    // Whether row k of a kernel at output row y meets input row h: [K, height, Y]; columns likewise.
    const Tensor rows = torch::eye(height, options).unfold(0, Y, 1),
                 columns = torch::eye(width, options).unfold(0, X, 1);
    const Tensor places =
        (rows.reshape({K, 1, height * Y, 1}) * columns.reshape({1, L, 1, width * X})).view({K * L, -1});
    weight_OI = weight.reshape({outputs * channels, K * L})
                    .mm(places)
                    .view({outputs, channels, height, Y, width, X})
                    .permute({0, 3, 5, 1, 2, 4})
                    .reshape({outputs * Y * X, channels * height * width});
    bias_O = convolution->bias.unsqueeze(1).expand({-1, Y * X}).reshape({-1});
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
    : input_MP_(fused::to_rows(observation_MX.to(dtype))) {
  if (observation_MX.scalar_type() == torch::kUInt8) input_MP_.div_(255);
}

Tensor GpuEncoder::image(const std::vector<std::int64_t>& shape, torch::nn::Conv2d convolution1,
                         torch::nn::Conv2d convolution2, torch::nn::Linear linear) const {
  const DenseConvolution first(convolution1, shape), second(convolution2, first.output_shape);
  Tensor x_MP = fused::linear(input_MP_, first.weight_OI, first.bias_O, /*relu=*/true);
  x_MP = fused::linear(x_MP, second.weight_OI, second.bias_O, /*relu=*/true);
  return fused::linear(x_MP, linear->weight, linear->bias, /*relu=*/false).narrow(1, 0, linear->weight.size(0));
}

Tensor GpuEncoder::vector(torch::nn::Linear linear) const {
  return fused::linear(input_MP_, linear->weight, linear->bias, /*relu=*/true).narrow(1, 0, linear->weight.size(0));
}

bool gpu_heads_take(const Tensor& features, const HeadImpl::Layers& head) {
  const std::int64_t hidden = head.hidden1->weight.size(0);
  return features.is_cuda() && head.hidden1->weight.scalar_type() == torch::kFloat32 && hidden % 8 == 0 &&
         3 * hidden <= fused::kMaxHeadColumns;
}

std::vector<Tensor> gpu_heads(const Tensor& features, const std::vector<HeadImpl::Layers>& heads) {
  std::vector<fused::HeadWeights> weights;
  for (const HeadImpl::Layers& head : heads)
    weights.push_back({head.hidden1->weight, head.hidden1->bias, head.hidden2->weight, head.hidden2->bias,
                       head.output->weight, head.output->bias});
  std::vector<std::int64_t> shape = features.sizes().vec();
  std::vector<Tensor> outputs = fused::heads(fused::to_rows(features), weights);
  for (Tensor& output : outputs) {
    shape.back() = output.size(1);
    output = output.view(shape);
  }
  return outputs;
}

}  // namespace engram
