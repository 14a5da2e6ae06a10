// The observation encoder on a GPU, for learning: the convolutions of small images as products with their dense
// matrices, with a backward pass of their own. They compute what encoder.h defines, in float32 or bfloat16 products.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/support.h"

namespace engram::cuda {

// A dense matrix grows with the square of the image.
constexpr std::int64_t kMaxConvolutionOutputs = 1024;

struct EncoderSizes {
  std::vector<std::int64_t> convolution_outputs;  // numbers an image; none for a vector
};
Support supports_encoder(const EncoderSizes& sizes, torch::ScalarType dtype, torch::Device device);

struct LayerWeights {
  torch::Tensor weight, bias;
};

// Both: observation [M, elements], uint8 (divided by 255) or float32 -> [M, D]. `shape`: of the image.
torch::Tensor encode_image(const torch::Tensor& observation_MX, torch::ScalarType dtype,
                           const std::vector<std::int64_t>& shape, const std::vector<LayerWeights>& convolutions,
                           const LayerWeights& linear);
torch::Tensor encode_vector(const torch::Tensor& observation_MX, torch::ScalarType dtype, const LayerWeights& linear);

}  // namespace engram::cuda
