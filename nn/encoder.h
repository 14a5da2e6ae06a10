// ObservationEncoder: an image or a vector as D features, on LibTorch's operations and, on a GPU, as fused layers
// (fused_encoder.h).
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/support.h"

namespace engram {

class ObservationEncoder {
 public:
  // An observation of `shape`: an image where that has three dimensions, else a vector. Its layers are registered with
  // `owner` itself, as "convolution1", "convolution2" and "observation", the names that weights are saved under; their
  // weights are drawn from torch's default generator in this order. Throws UserError for an image smaller than 3 x 3.
  ObservationEncoder(torch::nn::Module& owner, std::vector<std::int64_t> shape, std::int64_t width);

  // [M, elements] -> [M, D]. uint8 is divided by 255. Image: two 2 x 2 convolutions with 8 and 16 channels, relu after
  // each, linear to D; vector: linear to D, relu. On a GPU products are in `dtype`, and so is the result.
  torch::Tensor encode(const torch::Tensor& observation_MX, torch::ScalarType dtype, bool use_kernels) const;

  // Whether encode() may take the fused layers; and whether it may for observations of `shape`.
  Support kernels(torch::ScalarType dtype, torch::Device device) const;
  static Support kernels_for(const std::vector<std::int64_t>& shape, torch::ScalarType dtype, torch::Device device);

 private:
  torch::Tensor encode_by_definition(const torch::Tensor& observation_MX) const;

  std::vector<std::int64_t> shape_;
  // Shared with the owner; mutable, because LibTorch's modules compute by functions that are not const.
  mutable torch::nn::Conv2d convolution1_{nullptr}, convolution2_{nullptr};  // of an image
  mutable torch::nn::Linear linear_{nullptr};
};

}  // namespace engram
