#include "agents/gpu_network.h"

#include "memory/fused_block.h"
#include "memory/fused_mlp.h"

namespace engram {
namespace {

using torch::Tensor;

// A convolution of a small image as a linear layer: its responses to the unit vectors, as a product with the patches of
// those, whose gradient is a product too. (cuDNN's gradient of a convolution's weight is summed in no fixed order.)
struct DenseConvolution {
  Tensor weight_OI, bias_O;
  std::vector<std::int64_t> output_shape;

  DenseConvolution(torch::nn::Conv2d& convolution, const std::vector<std::int64_t>& input_shape) {
    const std::int64_t inputs = input_shape[0] * input_shape[1] * input_shape[2];
    const Tensor basis = torch::eye(inputs, convolution->weight.options().requires_grad(false))
                             .view({inputs, input_shape[0], input_shape[1], input_shape[2]});
    const std::int64_t height = convolution->weight.size(2), columns = convolution->weight.size(3);
    const Tensor patch =
        basis.unfold(2, height, 1).unfold(3, columns, 1);  // [I, channels, places, places, height, columns]
    const std::int64_t channels = convolution->weight.size(0);
    output_shape = {channels, patch.size(2), patch.size(3)};
    const Tensor patch_KL = patch.permute({1, 4, 5, 2, 3, 0}).reshape({convolution->weight[0].numel(), -1});
    const Tensor response_CLI = convolution->weight.flatten(1).mm(patch_KL).view({channels, -1, inputs});
    weight_OI = response_CLI.flatten(0, 1);
    bias_O = convolution->bias.unsqueeze(1).expand({-1, output_shape[1] * output_shape[2]}).reshape({-1});
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
  const DenseConvolution first(convolution1, shape), second(convolution2, first.output_shape);
  Tensor x_MP = fused::linear(input_MP_, first.weight_OI, first.bias_O, /*relu=*/true);
  x_MP = fused::linear(x_MP, second.weight_OI, second.bias_O, /*relu=*/true);
  return fused::from_rows(fused::linear(x_MP, linear->weight, linear->bias, /*relu=*/false),
                          {x_MP.size(0), linear->weight.size(0)});
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
