// The encoders on a GPU: the convolutions of small images, and the tables of tokens, as products with their dense
// matrices, with a backward pass of their own. They compute what nn/layers/encoder.h and joint_encoder.h define, in
// float32 or bfloat16 products.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/observation_spec.h"
#include "base/support.h"

namespace engram::cuda {

// A dense matrix grows with the square of the image.
constexpr std::int64_t kMaxConvolutionOutputs = 1024;

struct EncoderSizes {
  std::int64_t parts = 1;                         // of an observation and what is beside it
  std::vector<std::int64_t> convolution_outputs;  // numbers an image; none where there is no image
};
Support supports_encoder(const EncoderSizes& sizes, torch::ScalarType dtype, torch::Device device);

struct LayerWeights {
  torch::Tensor weight, bias;
};

// An image [M, elements], uint8 (divided by 255) or float32 -> [M, D]. `shape`: of the image.
torch::Tensor encode_image(const torch::Tensor& image_MX, torch::ScalarType dtype,
                           const std::vector<std::int64_t>& shape, const std::vector<LayerWeights>& convolutions,
                           const LayerWeights& linear);

// Quantities, or tokens, of which each is read as a row of a table.
struct EncodedPart {
  std::int64_t elements;
  torch::Tensor table_VE;  // undefined: quantities
};
// Observations [M, elements] of such parts, uint8 (quantities divided by 255) or float32 -> [M, D], relu of the linear
// map of all parts side by side. The table and the part of the map that reads its rows are one map of one-hot vectors,
// which is made of the weights alone.
torch::Tensor encode_parts(const torch::Tensor& observation_MX, torch::ScalarType dtype,
                           const std::vector<EncodedPart>& parts, const LayerWeights& linear);

// What a joint encoder reads: observations [M, elements], uint8 (quantities divided by 255) or float32, and, float32,
// what is beside them; with their parts, an image as quantities.
struct SeenParts {
  torch::Tensor x_MX;
  std::vector<ObservationPart> parts;
};
// [M, D]: a linear map of all parts side by side, tokens as one-hot vectors; a layer norm without gain and bias; a
// linear map and leaky relu.
torch::Tensor encode_jointly(const SeenParts& observation, const SeenParts& beside, torch::ScalarType dtype,
                             const LayerWeights& to_hidden, const LayerWeights& to_width);

}  // namespace engram::cuda
