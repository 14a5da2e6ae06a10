// ObservationEncoder: an observation as D features, on LibTorch's operations and, on a GPU, as fused layers
// (nn/fused/encoder.h), but for an image beside other parts.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/observation_spec.h"
#include "base/support.h"

namespace engram {

// A part of observations [M, elements] as numbers [M, ...] in `dtype`: of each token a one-hot vector of `part.values`;
// uint8 of an image or a vector divided by 255.
torch::Tensor part_numbers(const ObservationPart& part, const torch::Tensor& part_MX, torch::ScalarType dtype);

class ObservationEncoder {
 public:
  // Its layers are registered with `owner` itself, as "convolution1", "convolution2" (of an image), "embedding" (of
  // tokens) and "observation", the names that weights are saved under; of several parts, the names of the first three
  // begin with the part's name and "_". Their weights are drawn from torch's default generator in the order of the
  // parts. token_width: E. Throws UserError for an image smaller than 3 x 3.
  ObservationEncoder(torch::nn::Module& owner, std::vector<ObservationPart> parts, std::int64_t token_width,
                     std::int64_t width);

  // [M, elements] -> [M, D]. Of an image or a vector uint8 is divided by 255. Image: two 2 x 2 convolutions with 8 and
  // 16 channels, relu after each; vector: as it is; tokens: of each its row of a table [values, E], zeros for a number
  // that is none of them. Side by side, linear to D; relu where there is more than an image. On a GPU products are in
  // `dtype`, and so is the result.
  torch::Tensor encode(const torch::Tensor& observation_MX, torch::ScalarType dtype) const;

  // Whether encode() may take the fused layers; and whether it may for such observations.
  Support supports_kernels(torch::ScalarType dtype, torch::Device device) const;
  static Support supports_kernels_for(const std::vector<ObservationPart>& parts, torch::ScalarType dtype,
                                      torch::Device device);

 private:
  struct Reader {
    ObservationPart part;
    // Shared with the owner; mutable, because LibTorch's modules compute by functions that are not const.
    mutable torch::nn::Conv2d convolution1{nullptr}, convolution2{nullptr};
    torch::nn::Embedding embedding{nullptr};

    // Registers the layers; returns how many features it gives.
    std::int64_t add_layers(torch::nn::Module& owner, const std::string& prefix, std::int64_t token_width);
    // [M, elements] -> [M, features] in `dtype`.
    torch::Tensor read(const torch::Tensor& part_MX, torch::ScalarType dtype) const;
  };
  bool is_image() const { return readers_.size() == 1 && readers_[0].part.kind == PartKind::kImage; }
  torch::Tensor encode_by_definition(const torch::Tensor& observation_MX) const;

  std::vector<Reader> readers_;
  mutable torch::nn::Linear linear_{nullptr};
};

}  // namespace engram
