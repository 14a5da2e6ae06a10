#include "nn/encoder.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "nn/autocast.h"
#include "nn/fused_encoder.h"

namespace engram {
namespace {

constexpr std::int64_t kChannels1 = 8;
constexpr std::int64_t kChannels2 = 16;
constexpr std::int64_t kKernel = 2;

template <class Layer>
fused::LayerWeights layer_weights(const Layer& layer) {
  return {layer->weight, layer->bias};
}

}  // namespace

ObservationEncoder::ObservationEncoder(torch::nn::Module& owner, std::vector<std::int64_t> shape, std::int64_t width)
    : shape_(std::move(shape)) {
  std::int64_t inputs = 1;
  for (const std::int64_t size : shape_) inputs *= size;
  if (shape_.size() == 3) {
    const std::int64_t rows = shape_[1], columns = shape_[2];
    if (rows < 3 || columns < 3)
      throw UserError("an image of " + std::to_string(rows) + " x " + std::to_string(columns) +
                      " is too small for the encoder, which needs 3 x 3");
    const auto convolution = [&](const char* name, std::int64_t from, std::int64_t to) {
      return owner.register_module(name, torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, kKernel)));
    };
    convolution1_ = convolution("convolution1", shape_[0], kChannels1);
    convolution2_ = convolution("convolution2", kChannels1, kChannels2);
    inputs = kChannels2 * (rows - 2) * (columns - 2);
  }
  linear_ = owner.register_module("observation", torch::nn::Linear(inputs, width));
}

Support ObservationEncoder::kernels(torch::ScalarType dtype, torch::Device device) const {
  if (linear_->weight.scalar_type() != torch::kFloat32)
    return Support::no(std::string("the parameters are in ") + torch::toString(linear_->weight.scalar_type()));
  return kernels_for(shape_, dtype, device);
}

Support ObservationEncoder::kernels_for(const std::vector<std::int64_t>& shape, torch::ScalarType dtype,
                                        torch::Device device) {
  if (shape.size() != 3) return fused::encoder_support({}, dtype, device);
  const std::int64_t rows = shape[1], columns = shape[2];
  return fused::encoder_support({{kChannels1 * (rows - 1) * (columns - 1), kChannels2 * (rows - 2) * (columns - 2)}},
                                dtype, device);
}

torch::Tensor ObservationEncoder::encode(const torch::Tensor& observation_MX, torch::ScalarType dtype,
                                         bool use_kernels) const {
  if (!use_kernels || !kernels(dtype, observation_MX.device())) {
    const ComputeIn products(observation_MX.device(), dtype);
    return encode_by_definition(observation_MX);
  }
  if (!convolution1_) return fused::encode_vector(observation_MX, dtype, layer_weights(linear_));
  return fused::encode_image(observation_MX, dtype, shape_,
                             {layer_weights(convolution1_), layer_weights(convolution2_)}, layer_weights(linear_));
}

torch::Tensor ObservationEncoder::encode_by_definition(const torch::Tensor& observation_MX) const {
  std::vector<std::int64_t> shape{-1};
  shape.insert(shape.end(), shape_.begin(), shape_.end());
  torch::Tensor input = observation_MX.reshape(shape).to(linear_->weight.scalar_type());
  if (observation_MX.scalar_type() == torch::kUInt8) input.div_(255);
  if (!convolution1_) return linear_(input.flatten(1)).relu_();
  input = convolution2_(convolution1_(input).relu_()).relu_();
  return linear_(input.flatten(1));
}

}  // namespace engram
