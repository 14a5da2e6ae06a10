#include "nn/fused/norm.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "nn/device/plain_operations.h"
#include "nn/fused/rows.h"
#include "nn/fused/support.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor normalized(const RowNorm& norm, const Tensor& x_MD) {
  const Tensor y_MD = torch::empty_like(x_MD);
  residual_norm_forward(
      norm,
      {.dropout = {}, .branch = x_MD.data_ptr(), .branch_stride = x_MD.size(1), .residual = nullptr, .x = nullptr},
      y_MD.data_ptr(), current_stream());
  return y_MD;
}

class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_MD, const Tensor& weight_D,
                        const std::optional<Tensor>& bias_D) {
    const Tensor x = aligned(x_MD.detach());
    context->save_for_backward({x, weight_D, bias_D.value_or(Tensor())});
    return normalized(row_norm(norm_of(weight_D, bias_D.value_or(Tensor())), x), x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    SideWork side(SideStreamOf::kLayerWeights);
    NormGradients d = normalized_backward(saved[0], norm_of(saved[1], saved[2]), aligned(gradient[0]),
                                          /*residual_MP=*/{}, /*dropout=*/{}, context->needs_input_grad(0), side);
    side.finish(d.parameters, /*of_leaves=*/false);
    d.parameters.resize(2);
    return {d.x_MP, d.parameters[0], d.parameters[1]};
  }

 private:
  static Norm norm_of(const Tensor& weight_D, const Tensor& bias_D) {
    return {weight_D.detach(), bias_D.defined() ? bias_D.detach() : Tensor()};
  }
};

// A norm whose weight is not learnt, without one where it is 1.
class FixedNormFunction : public torch::autograd::Function<FixedNormFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_MD, NormKind kind,
                        const std::optional<Tensor>& weight_D, double epsilon) {
    const Tensor x = aligned(x_MD.detach());
    context->save_for_backward({x, weight_D.value_or(Tensor())});
    context->saved_data["is_layer"] = kind == NormKind::kLayer;
    context->saved_data["epsilon"] = epsilon;
    return normalized(norm_of(kind, x, weight_D.value_or(Tensor()), epsilon), x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], dy = aligned(gradient[0]);
    const NormKind kind = context->saved_data["is_layer"].toBool() ? NormKind::kLayer : NormKind::kRms;
    const RowNorm norm = norm_of(kind, x, saved[1], context->saved_data["epsilon"].toDouble());
    const Tensor dx = torch::empty_like(x), scratch = scratch_bytes(row_norm_backward_scratch_bytes(norm), x);
    row_norm_backward(norm,
                      {.y = dy.data_ptr(),
                       .y_stride = dy.size(1),
                       .residual = nullptr,
                       .x = dx.data_ptr(),
                       .weight = nullptr,  // nothing is made of what the scratch memory holds
                       .bias = nullptr,
                       .dropout = {},
                       .dropped = nullptr},
                      scratch.data_ptr(), current_stream());
    return {dx, Tensor(), Tensor(), Tensor()};
  }

 private:
  static RowNorm norm_of(NormKind kind, const Tensor& x_MD, const Tensor& weight_D, double epsilon) {
    const int width = static_cast<int>(x_MD.size(1));
    return {.kind = kind,
            .rows = x_MD.size(0),
            .width = width,
            .stride = width,
            .epsilon = static_cast<float>(epsilon),
            .dtype = kernel_dtype(x_MD),
            .x = x_MD.data_ptr(),
            .weight = float_data(weight_D),
            .bias = nullptr};
  }
};

}  // namespace

Support supports_norm(std::int64_t channels) {
  constexpr std::int64_t kMostChannels = 1024;
  if (channels % kVectorElements != 0)
    return Support::no("a norm of " + std::to_string(channels) + " channels, not a multiple of 8");
  return at_most("a norm's number of channels", channels, kMostChannels);
}

bool takes_rows(const Tensor& x) {
  return !PlainOperations::on() && x.is_cuda() &&
         (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16) && x.numel() > 0 &&
         supports_norm(x.size(-1));
}

bool takes_norm(const Tensor& x, const Norm& norm) {
  return takes_rows(x) && norm.weight_D.device() == x.device() && norm.weight_D.scalar_type() == torch::kFloat32;
}

Tensor normed(const Tensor& x, const Norm& norm) {
  const std::optional<Tensor> bias_D = norm.bias_D.defined() ? std::optional<Tensor>(norm.bias_D) : std::nullopt;
  return NormFunction::apply(x.reshape({-1, x.size(-1)}), norm.weight_D, bias_D).view(x.sizes());
}

Tensor layer_normed(const Tensor& x) {
  return FixedNormFunction::apply(x.reshape({-1, x.size(-1)}), NormKind::kLayer, std::nullopt, kLayerNormEpsilon)
      .view(x.sizes());
}

// The RMS norm with the weight 1 / sqrt(D).
Tensor l2_normed(const Tensor& x, double epsilon) {
  const auto channels = static_cast<double>(x.size(-1));
  const std::optional<Tensor> weight_D =
      torch::full({x.size(-1)}, 1 / std::sqrt(channels), x.options().dtype(torch::kFloat32));
  return FixedNormFunction::apply(x.reshape({-1, x.size(-1)}), NormKind::kRms, weight_D, epsilon / channels)
      .view(x.sizes());
}

}  // namespace engram::cuda
