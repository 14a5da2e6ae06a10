#include "nn/fused_linear.h"

#include <utility>

#include "nn/fused_rows.h"
#include "nn/weight_stack.h"

namespace engram::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class LinearPass : public torch::CustomClassHolder {
 public:
  LinearPass(const Tensor& x_MP, const Tensor& weight_OI, const Tensor& bias_O, bool relu)
      : x_MP_(x_MP),
        relu_(relu),
        of_leaves_(are_leaves({weight_OI, bias_O})),
        weight_stack_(round_up(weight_OI.size(0), kWidthMultiple), static_cast<int>(x_MP.size(1))),
        bias_stack_(1, round_up(weight_OI.size(0), kWidthMultiple)) {
    const int outputs = round_up(weight_OI.size(0), kWidthMultiple);
    weight_stack_.add(weight_OI, 0, padded_to(weight_OI.size(0), outputs),
                      padded_to(weight_OI.size(1), static_cast<int>(x_MP.size(1))));
    bias_stack_.add(bias_O, 0, padded_to(1, 1), padded_to(bias_O.size(0), outputs));
  }

  Tensor forward() {
    const auto dtype = x_MP_.scalar_type();
    const auto packed = WeightStack::packed({{weight_stack_, dtype}, {bias_stack_, dtype}});
    weight_ = packed[0];
    y_MP_ = affine(x_MP_, weight_, packed[1].view({-1}), relu_);
    return y_MP_;
  }

  // The gradients of x (if it is wanted), weight and bias.
  variable_list backward(const Tensor& gradient_MP, bool wants_x) {
    const Tensor d_y = relu_ ? torch::empty_like(gradient_MP) : gradient_MP;
    SideWork weights(SideStreamOf::kLayerWeights);
    const BiasGradient d_bias = relu_backward(gradient_MP, relu_ ? y_MP_ : Tensor(), relu_ ? d_y : Tensor(), weights);
    variable_list gradients{Tensor()};
    weights.run([&] {
      gradients.push_back(weight_stack_.unpacked(product_float(d_y.t(), x_MP_))[0]);
      gradients.push_back(bias_stack_.unpacked(d_bias.bias)[0]);
    });
    if (wants_x) gradients[0] = product(d_y, weight_);
    weights.keep({d_y, d_bias.scratch, d_bias.bias});
    weights.finish({gradients[1], gradients[2]}, of_leaves_);
    return gradients;
  }

 private:
  Tensor x_MP_;
  bool relu_, of_leaves_;
  WeightStack weight_stack_, bias_stack_;
  Tensor weight_, y_MP_;
};

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_MP, const Tensor& weight, const Tensor& bias,
                        bool relu) {
    auto pass = c10::make_intrusive<LinearPass>(x_MP.detach(), weight, bias, relu);
    const Tensor y_MP = pass->forward();
    context->saved_data["pass"] = c10::IValue::make_capsule(std::move(pass));
    // The pass keeps the output's values; a shared handle would make the graph keep itself.
    return y_MP.alias();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const auto holder = context->saved_data["pass"].toCapsule();
    variable_list gradients =
        static_cast<LinearPass*>(holder.get())->backward(gradient[0].contiguous(), context->needs_input_grad(0));
    gradients.emplace_back();  // of relu
    return gradients;
  }
};

}  // namespace

Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  return relu ? torch::_addmm_activation(bias, x, weight.t()) : torch::addmm(bias, x, weight.t());
}

BiasGradient relu_backward(const Tensor& dy, const Tensor& y, const Tensor& dx, const SideWork& side) {
  const Tensor bias = torch::empty({dy.size(1)}, dy.options().dtype(torch::kFloat32));
  const ColumnBlocks blocks({.rows = dy.size(0),
                             .columns = static_cast<int>(dy.size(1)),
                             .dtype = kernel_dtype(dy),
                             .y = y.defined() ? y.data_ptr() : nullptr,
                             .y_stride = y.defined() ? y.stride(0) : 0,
                             .dy = dy.data_ptr(),
                             .dy_stride = dy.stride(0),
                             .dx = dx.defined() ? dx.data_ptr() : nullptr,
                             .dx_stride = dx.defined() ? dx.stride(0) : 0,
                             .bias = bias.data_ptr<float>()},
                            dy);
  // Without a relu nothing but the bias's gradient is computed.
  if (dx.defined()) blocks.backward();
  side.run([&] {
    if (!dx.defined()) blocks.backward();
    blocks.add_sums();
  });
  return {bias, blocks.scratch()};
}

Tensor linear(const Tensor& x_MP, const Tensor& weight_OI, const Tensor& bias_O, bool relu) {
  return LinearFunction::apply(x_MP, weight_OI, bias_O, relu);
}

}  // namespace engram::fused
