#include "nn/layers/encoder.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/error.h"
#include "nn/cpu/image_encoder.h"
#include "nn/cpu/layers.h"
#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"
#include "nn/fused/encoder.h"
#include "nn/fused/support.h"
#include "nn/layers/layers.h"

namespace engram {
namespace {

constexpr std::int64_t kChannels1 = 8;
constexpr std::int64_t kChannels2 = 16;
constexpr std::int64_t kKernel = 2;

template <class Layer>
cuda::LayerWeights layer_weights(const Layer& layer) {
  return {layer->weight, layer->bias};
}

}  // namespace

std::int64_t ObservationEncoder::Reader::add_layers(torch::nn::Module& owner, const std::string& prefix,
                                                    std::int64_t token_width) {
  if (part.kind == PartKind::kVector) return part.elements();
  if (part.kind == PartKind::kTokens) {
    embedding = owner.register_module(prefix + "embedding", torch::nn::Embedding(part.values, token_width));
    return part.elements() * token_width;
  }
  const std::int64_t rows = part.shape[1], columns = part.shape[2];
  if (rows < 3 || columns < 3)
    throw UserError("an image of " + std::to_string(rows) + " x " + std::to_string(columns) +
                    " is too small for the encoder, which needs 3 x 3");
  const auto convolution = [&](const std::string& name, std::int64_t from, std::int64_t to) {
    return owner.register_module(prefix + name, torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, kKernel)));
  };
  convolution1 = convolution("convolution1", part.shape[0], kChannels1);
  convolution2 = convolution("convolution2", kChannels1, kChannels2);
  return kChannels2 * (rows - 2) * (columns - 2);
}

torch::Tensor part_numbers(const ObservationPart& part, const torch::Tensor& part_MX, torch::ScalarType dtype) {
  if (part.kind == PartKind::kTokens)
    return part_MX.unsqueeze(-1).eq(torch::arange(part.values, part_MX.options())).to(dtype).flatten(1);
  torch::Tensor numbers = part_MX.to(dtype);
  if (part_MX.scalar_type() == torch::kUInt8) numbers.div_(255);
  return numbers;
}

torch::Tensor ObservationEncoder::Reader::read(const torch::Tensor& part_MX, torch::ScalarType dtype) const {
  const torch::Tensor numbers = part_numbers(part, part_MX, dtype);
  // A row of the table, as a product: on a GPU an embedding's backward pass sorts all indices.
  if (part.kind == PartKind::kTokens)
    return numbers.unflatten(1, {part.elements(), part.values}).matmul(embedding->weight).flatten(1);
  if (part.kind == PartKind::kVector) return numbers;
  std::vector<std::int64_t> shape{-1};
  shape.insert(shape.end(), part.shape.begin(), part.shape.end());
  return convolution2(convolution1(numbers.reshape(shape)).relu_()).relu_().flatten(1);
}

ObservationEncoder::ObservationEncoder(torch::nn::Module& owner, std::vector<ObservationPart> parts,
                                       std::int64_t token_width, std::int64_t width) {
  std::int64_t features = 0;
  for (ObservationPart& part : parts) {
    Reader& reader = readers_.emplace_back(Reader{.part = std::move(part)});
    features += reader.add_layers(owner, parts.size() == 1 ? "" : reader.part.name + "_", token_width);
  }
  linear_ = owner.register_module("observation", torch::nn::Linear(features, width));
}

Support ObservationEncoder::supports_kernels(torch::ScalarType dtype, torch::Device device) const {
  if (Support own = cuda::supports_parameters(linear_->weight); !own) return own;
  std::vector<ObservationPart> parts;
  for (const Reader& reader : readers_) parts.push_back(reader.part);
  return supports_kernels_for(parts, dtype, device);
}

Support ObservationEncoder::supports_kernels_for(const std::vector<ObservationPart>& parts, torch::ScalarType dtype,
                                                 torch::Device device) {
  const auto is_image = [](const ObservationPart& part) { return part.kind == PartKind::kImage; };
  if (std::ranges::none_of(parts, is_image)) return cuda::supports_encoder({std::ssize(parts), {}}, dtype, device);
  if (parts.size() > 1) return Support::no("the observation has an image and other parts");
  const std::int64_t rows = parts[0].shape[1], columns = parts[0].shape[2];
  return cuda::supports_encoder(
      {.convolution_outputs = {kChannels1 * (rows - 1) * (columns - 1), kChannels2 * (rows - 2) * (columns - 2)}},
      dtype, device);
}

torch::Tensor ObservationEncoder::encode(const torch::Tensor& observation_MX, torch::ScalarType dtype) const {
  if (PlainOperations::on() || !supports_kernels(dtype, observation_MX.device())) {
    const ComputeIn products(observation_MX.device(), dtype);
    return encode_by_definition(observation_MX);
  }
  if (!is_image()) {
    std::vector<cuda::EncodedPart> parts;
    for (const Reader& reader : readers_)
      parts.push_back({reader.part.elements(), reader.embedding ? reader.embedding->weight : torch::Tensor()});
    return cuda::encode_parts(observation_MX, dtype, parts, layer_weights(linear_));
  }
  const Reader& only = readers_[0];
  return cuda::encode_image(observation_MX, dtype, only.part.shape,
                            {layer_weights(only.convolution1), layer_weights(only.convolution2)},
                            layer_weights(linear_));
}

torch::Tensor ObservationEncoder::encode_by_definition(const torch::Tensor& observation_MX) const {
  const torch::ScalarType dtype = linear_->weight.scalar_type();
  const torch::Tensor flat_MX = observation_MX.flatten(1);
  if (const Reader& only = readers_[0];
      is_image() && flat_MX.scalar_type() == torch::kUInt8 && flat_MX.size(0) > 0 && cpu::takes(linear_->weight))
    return cpu::encode_image(flat_MX, {only.part.shape[0], only.part.shape[1], only.part.shape[2]},
                             {only.convolution1->weight, only.convolution1->bias, only.convolution2->weight,
                              only.convolution2->bias, linear_->weight, linear_->bias});
  std::vector<torch::Tensor> features;
  for (std::int64_t first = 0; const Reader& reader : readers_) {
    features.push_back(reader.read(flat_MX.narrow(1, first, reader.part.elements()), dtype));
    first += reader.part.elements();
  }
  const torch::Tensor all = features.size() == 1 ? features[0] : torch::cat(features, 1);
  const torch::Tensor encoded = apply_linear(linear_, all);
  return is_image() ? encoded : encoded.relu();
}

}  // namespace engram
