// Whether a GPU's library gets matrix products right: with some shares of a GPU (nn/device/gpu_share.h) it does not.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace engram {

// [rows, inner] x [inner, columns]; `error`: the largest of an element, over the square root of `inner`; infinite where
// an element is not finite.
struct WrongProduct {
  std::int64_t rows, inner, columns;
  double error;
};

// Writes x_MK w_KN, bfloat16, into out_MN.
using ProductOut = std::function<void(torch::Tensor& out_MN, const torch::Tensor& x_MK, const torch::Tensor& w_KN)>;
// LibTorch's.
void library_product(torch::Tensor& out_MN, const torch::Tensor& x_MK, const torch::Tensor& w_KN);

// The first of 48 products, of shapes and layouts that layers and their gradients have, that is not float32's but for
// bfloat16's rounding. Of a library's products on an H100 limited to 22 multiprocessors one of four is not
// (docs/figures/speed.md); none found proves nothing of other shapes. Uses no generator but its own.
std::optional<WrongProduct> find_wrong_product(torch::Device device, const ProductOut& product = library_product);

// Where this program has a share of the GPU `device`, looks for one in LibTorch's. Throws UserError, with the share.
void check_products_of_share(torch::Device device);

}  // namespace engram
