#include "nn/small_product.h"

#include "kernels/small_product/small_product.h"
#include "nn/cuda_support.h"

namespace engram::fused {

std::optional<torch::Tensor> small_product(const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& bias,
                                           bool relu) {
  const auto readable = [&](const torch::Tensor& x, std::int64_t dimensions) {
    return x.is_cuda() && x.device() == a.device() && x.scalar_type() == torch::kBFloat16 && x.dim() == dimensions;
  };
  if (!readable(a, 2) || !readable(b, 2) || a.size(1) != b.size(0) || a.stride(1) != 1) return {};
  if (bias.defined() && (!readable(bias, 1) || bias.size(0) != b.size(1) || bias.stride(0) != 1)) return {};
  const bool transposed = b.stride(1) != 1;
  if (transposed && b.stride(0) != 1) return {};
  SmallProduct product{.rows = a.size(0),
                       .inner = a.size(1),
                       .columns = b.size(1),
                       .a = a.data_ptr(),
                       .a_stride = a.stride(0),
                       .b = b.data_ptr(),
                       .b_stride = b.stride(transposed ? 1 : 0),
                       .b_transposed = transposed,
                       .bias = bias.defined() ? bias.data_ptr() : nullptr,
                       .relu = relu,
                       .c = nullptr,
                       .c_stride = b.size(1)};
  if (!small_product_support(product)) return {};
  const torch::Tensor c = torch::empty({product.rows, product.c_stride}, a.options().requires_grad(false));
  product.c = c.data_ptr();
  engram::small_product(product, current_stream());
  return c;
}

}  // namespace engram::fused
