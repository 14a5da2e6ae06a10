// PassFunction: a fused operation as a differentiable function of LibTorch's autograd.
#pragma once

#include <torch/torch.h>

#include <utility>

namespace engram::fused {

struct NoSettings {};

// Pass is a torch::CustomClassHolder that keeps what its backward pass needs:
//   using Settings                        what it needs beside tensors
//   Pass(x_MP, parameters, settings)      rows x without their history
//   Tensor forward()
//   variable_list backward(gradient_MP)   the gradients of x and of each parameter
template <class Pass>
class PassFunction : public torch::autograd::Function<PassFunction<Pass>> {
 public:
  using Settings = typename Pass::Settings;

  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x_MP,
                               at::TensorList parameters, const Settings& settings) {
    auto pass = c10::make_intrusive<Pass>(x_MP.detach(), parameters, settings);
    torch::Tensor y_MP = pass->forward();
    context->saved_data["pass"] = c10::IValue::make_capsule(std::move(pass));
    return y_MP;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradient) {
    const auto pass = context->saved_data["pass"].toCapsule();
    torch::autograd::variable_list gradients = static_cast<Pass&>(*pass).backward(gradient[0].contiguous());
    gradients.emplace_back();  // of the settings
    return gradients;
  }
};

}  // namespace engram::fused
