#include "nn/fused/norm.h"

#include <cmath>
#include <cstdint>
#include <optional>

#include "nn/device/plain_operations.h"
#include "nn/fused/rows.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Where the kernels can read them.
Tensor aligned(const Tensor& x_MD) {
  const Tensor rows = x_MD.contiguous();
  return reinterpret_cast<std::uintptr_t>(rows.data_ptr()) % 16 == 0 ? rows : rows.clone();
}

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

// The RMS norm with the weight 1 / sqrt(D), which is not learnt.
class L2NormFunction : public torch::autograd::Function<L2NormFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_MD, double epsilon) {
    const Tensor x = aligned(x_MD.detach());
    const double root = std::sqrt(static_cast<double>(x.size(1)));
    const Tensor weight = torch::full({x.size(1)}, 1 / root, x.options().dtype(torch::kFloat32));
    context->save_for_backward({x, weight});
    context->saved_data["epsilon"] = epsilon;
    return normalized(rms_norm(x, weight, epsilon), x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], dy = aligned(gradient[0]);
    const RowNorm norm = rms_norm(x, weight, context->saved_data["epsilon"].toDouble());
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
    return {dx, Tensor()};
  }

 private:
  static RowNorm rms_norm(const Tensor& x_MD, const Tensor& weight_D, double epsilon) {
    RowNorm norm = row_norm(Norm(weight_D), x_MD);
    norm.epsilon = static_cast<float>(epsilon / static_cast<double>(x_MD.size(1)));
    return norm;
  }
};

}  // namespace

bool takes_rows(const Tensor& x) {
  constexpr std::int64_t kMostChannels = 1024;
  return !PlainOperations::on() && x.is_cuda() &&
         (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16) && x.numel() > 0 &&
         x.size(-1) % kVectorElements == 0 && x.size(-1) <= kMostChannels;
}

bool takes_norm(const Tensor& x, const Norm& norm) {
  return takes_rows(x) && norm.weight_D.device() == x.device() && norm.weight_D.scalar_type() == torch::kFloat32;
}

Tensor normed(const Tensor& x, const Norm& norm) {
  const std::optional<Tensor> bias_D = norm.bias_D.defined() ? std::optional<Tensor>(norm.bias_D) : std::nullopt;
  return NormFunction::apply(x.reshape({-1, x.size(-1)}), norm.weight_D, bias_D).view(x.sizes());
}

Tensor l2_normed(const Tensor& x, double epsilon) {
  return L2NormFunction::apply(x.reshape({-1, x.size(-1)}), epsilon).view(x.sizes());
}

}  // namespace engram::cuda
