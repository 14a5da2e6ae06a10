// Two 2 x 2 convolutions with a relu after each, and a linear map of all that they give, of images of bytes on a CPU in
// float32: small convolutions as products, of a few images at a time.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstdint>

namespace engram::cpu {

struct ImageEncoderWeights {
  torch::Tensor convolution1, bias1;  // [N, C, 2, 2], [N]
  torch::Tensor convolution2, bias2;  // [P, N, 2, 2], [P]
  torch::Tensor linear, bias;         // [D, P (rows - 2) (columns - 2)], [D]
};

// image [M, C * rows * columns], uint8, of {C, rows, columns} -> [M, D]. The bytes are divided by 255.
torch::Tensor encode_image(const torch::Tensor& image_MX, const std::array<std::int64_t, 3>& shape,
                           const ImageEncoderWeights& weights);

}  // namespace engram::cpu
