// The observation encoder on a GPU: the convolutions of small images, and the tables of tokens, as products with their
// dense matrices, with a backward pass of their own. They compute what encoder.h defines, in float32 or bfloat16
// products.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/support.h"

namespace engram::cuda {

// A dense matrix grows with the square of the image.
constexpr std::int64_t kMaxConvolutionOutputs = 1024;

struct EncoderSizes {
  std::int64_t parts = 1;                         // of an observation
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

}  // namespace engram::cuda
