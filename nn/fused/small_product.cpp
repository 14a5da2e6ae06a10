#include "nn/fused/small_product.h"

#include <cstdint>

#include "kernels/block/small_product/small_product.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {
namespace {

// Whether x is one of a's device in bfloat16, or another type.
bool readable(const torch::Tensor& x, std::int64_t dimensions, const torch::Tensor& a,
              torch::ScalarType dtype = torch::kBFloat16) {
  return x.is_cuda() && x.device() == a.device() && x.scalar_type() == dtype && x.dim() == dimensions;
}

// dtype: of the bias and the result.
std::optional<torch::Tensor> product_in(torch::ScalarType dtype, const torch::Tensor& a, const torch::Tensor& b,
                                        const torch::Tensor& bias, bool relu) {
  if (!readable(a, 2, a) || !readable(b, 2, a) || a.size(1) != b.size(0) || a.stride(1) != 1) return {};
  if (bias.defined() && (!readable(bias, 1, a, dtype) || bias.size(0) != b.size(1) || bias.stride(0) != 1)) return {};
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
                       .c_stride = b.size(1),
                       .c_dtype = dtype == torch::kFloat32 ? Dtype::kFloat32 : Dtype::kBfloat16};
  if (!supports_small_product(product)) return {};
  const torch::Tensor c = torch::empty({product.rows, product.c_stride}, a.options().dtype(dtype).requires_grad(false));
  product.c = c.data_ptr();
  engram::small_product(product, current_stream());
  return c;
}

}  // namespace

std::optional<torch::Tensor> small_product(const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& bias,
                                           bool relu) {
  return product_in(torch::kBFloat16, a, b, bias, relu);
}

std::optional<torch::Tensor> small_product_float(const torch::Tensor& a, const torch::Tensor& b,
                                                 const torch::Tensor& bias) {
  return product_in(torch::kFloat32, a, b, bias, /*relu=*/false);
}

std::optional<torch::Tensor> small_gradient(const torch::Tensor& a, const torch::Tensor& b) {
  if (!readable(a, 2, a) || !readable(b, 2, a) || a.size(0) != b.size(0) || a.stride(1) != 1 || b.stride(1) != 1)
    return {};
  SmallGradient gradient{.rows = a.size(0),
                         .outputs = a.size(1),
                         .inputs = b.size(1),
                         .a = a.data_ptr(),
                         .a_stride = a.stride(0),
                         .b = b.data_ptr(),
                         .b_stride = b.stride(0),
                         .parts = nullptr};
  if (!supports_small_gradient(gradient)) return {};
  const torch::Tensor parts = torch::empty({small_gradient_parts(gradient.rows), gradient.outputs, gradient.inputs},
                                           a.options().dtype(torch::kFloat32).requires_grad(false));
  gradient.parts = parts.data_ptr<float>();
  engram::small_gradient(gradient, current_stream());
  return parts;
}

}  // namespace engram::cuda
