#include "nn/fused/rows.h"

#include <optional>

#include "nn/fused/small_product.h"
#include "nn/fused/weights/packed_weights.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// x as rows of P channels, zero from channel D on.
Tensor padded_rows(const Tensor& x) {
  const std::int64_t width = x.size(-1), padded = round_up(static_cast<int>(width), kWidthMultiple);
  Tensor x_MD = x.reshape({-1, width});
  if (x_MD.stride(1) != 1 || x_MD.stride(0) < width) x_MD = x_MD.contiguous();
  if (width == padded && x_MD.is_contiguous()) return x_MD;
  const Tensor y_MP = torch::empty({x_MD.size(0), padded}, x.options().requires_grad(false));
  dropout_add({.rows = x_MD.size(0),
               .width = static_cast<int>(width),
               .x_stride = x_MD.stride(0),
               .stride = static_cast<int>(padded),
               .dtype = kernel_dtype(x),
               .dropout = {},
               .x = x_MD.data_ptr(),
               .residual = nullptr},
              y_MP.data_ptr(), current_stream());
  return y_MP;
}

class ToRowsFunction : public torch::autograd::Function<ToRowsFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    context->saved_data["shape"] = x.sizes().vec();
    return padded_rows(x.detach()).alias();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    return {unpadded_view(gradient[0].contiguous(), context->saved_data["shape"].toIntVector())};
  }
};

class FromRowsFunction : public torch::autograd::Function<FromRowsFunction> {
 public:
  static Tensor forward(AutogradContext*, const Tensor& x_MP, const std::vector<std::int64_t>& shape) {
    return unpadded_view(x_MP.detach(), shape);
  }
  static variable_list backward(AutogradContext*, const variable_list& gradient) {
    return {padded_rows(gradient[0]), Tensor()};
  }
};

}  // namespace

Tensor to_rows(const Tensor& x) { return ToRowsFunction::apply(x); }

Tensor from_rows(const Tensor& x_MP, const std::vector<std::int64_t>& shape) {
  return FromRowsFunction::apply(x_MP, shape);
}

Tensor product(const Tensor& a, const Tensor& b) {
  if (std::optional<Tensor> c = small_product(a, b)) return *std::move(c);
  return torch::mm(a, b);
}

Tensor product_float(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == torch::kFloat32 ? torch::mm(a, b) : torch::mm(a, b, torch::kFloat32);
}

Tensor weight_gradient(const Tensor& d_y_MO, const Tensor& x_MI) {
  if (std::optional<Tensor> parts_NOI = small_gradient(d_y_MO, x_MI)) return *std::move(parts_NOI);
  return product_float(d_y_MO.t(), x_MI).unsqueeze(0);
}

Tensor sum_of_parts(const Tensor& parts_NOI, SideWork& side) {
  if (parts_NOI.size(0) == 1) return parts_NOI[0];
  const Tensor sum_OI = torch::empty({parts_NOI.size(1), parts_NOI.size(2)}, parts_NOI.options());
  const auto whole = [](std::int64_t count) { return padded_to(count, static_cast<int>(count)); };
  side.add({.parts = parts_NOI.data_ptr<float>(),
            .count = static_cast<int>(parts_NOI.size(0)),
            .stride = static_cast<int>(sum_OI.size(1)),
            .distance = sum_OI.numel(),
            .rows = whole(sum_OI.size(0)),
            .columns = whole(sum_OI.size(1)),
            .gradient = sum_OI.data_ptr<float>()},
           parts_NOI);
  return sum_OI;
}

}  // namespace engram::cuda
