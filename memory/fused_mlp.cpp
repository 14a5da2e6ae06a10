#include "memory/fused_mlp.h"

#include <utility>

#include "kernels/block/elementwise.h"
#include "memory/fused_block.h"
#include "memory/fused_rows.h"
#include "memory/side_work.h"
#include "memory/weight_stack.h"

namespace engram::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int kActionMultiple = 8;

// [relu](x W^T + b)
Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  return relu ? torch::_addmm_activation(bias, x, weight.t()) : torch::addmm(bias, x, weight.t());
}

// The bias's gradient, which is the side's, and what it reads until it has ended.
struct BiasGradient {
  Tensor bias, scratch;
};

// Through relu where y is given: dx, which may be dy.
BiasGradient relu_backward(const Tensor& dy, const Tensor& y, const Tensor& dx, const SideWork& side) {
  const Tensor bias = torch::empty({dy.size(1)}, dy.options().dtype(torch::kFloat32));
  const ReluBiasGradient gradient{.rows = dy.size(0),
                                  .columns = static_cast<int>(dy.size(1)),
                                  .dtype = kernel_dtype(dy),
                                  .y = y.defined() ? y.data_ptr() : nullptr,
                                  .y_stride = y.defined() ? y.stride(0) : 0,
                                  .dy = dy.data_ptr(),
                                  .dy_stride = dy.stride(0),
                                  .dx = dx.defined() ? dx.data_ptr() : nullptr,
                                  .dx_stride = dx.defined() ? dx.stride(0) : 0,
                                  .bias = bias.data_ptr<float>()};
  const Tensor scratch = scratch_bytes(relu_bias_backward_scratch_bytes(gradient), dy);
  // Without a relu nothing but the bias's gradient is computed.
  if (dx.defined()) relu_bias_backward(gradient, scratch.data_ptr(), current_stream());
  side.run([&] {
    if (!dx.defined()) relu_bias_backward(gradient, scratch.data_ptr(), current_stream());
    relu_bias_add_sums(gradient, scratch.data_ptr(), current_stream());
  });
  return {bias, scratch};
}

class LinearPass : public torch::CustomClassHolder {
 public:
  LinearPass(const Tensor& x_MP, const Tensor& weight_OI, const Tensor& bias_O, bool relu)
      : x_MP_(x_MP),
        relu_(relu),
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

  // Gradients of x (if it is wanted), weight and bias.
  variable_list backward(const Tensor& gradient_MP, bool wants_x) {
    const Tensor d_y = relu_ ? torch::empty_like(gradient_MP) : gradient_MP;
    const SideWork weights(SideStreamOf::kWeights);
    const BiasGradient d_bias = relu_backward(gradient_MP, relu_ ? y_MP_ : Tensor(), relu_ ? d_y : Tensor(), weights);
    variable_list gradients{Tensor()};
    weights.run([&] {
      gradients.push_back(weight_stack_.unpacked(product_float(d_y.t(), x_MP_))[0]);
      gradients.push_back(bias_stack_.unpacked(d_bias.bias)[0]);
    });
    if (wants_x) gradients[0] = product(d_y, weight_);
    weights.join();
    return gradients;
  }

 private:
  Tensor x_MP_;
  bool relu_;
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

class HeadsPass : public torch::CustomClassHolder {
 public:
  HeadsPass(const Tensor& x_MP, const std::vector<HeadWeights>& weights)
      : x_MP_(x_MP),
        hidden_(static_cast<int>(weights[0].weight1_ID.size(0))),
        actions_(round_up(weights[0].weight3_AI.size(0), kActionMultiple)),
        count_(static_cast<int>(weights.size())),
        weight1_(count_ * hidden_, static_cast<int>(x_MP.size(1))),
        weight2_(count_ * hidden_, hidden_),
        weight3_(count_ * actions_, hidden_),
        hidden_bias_(2 * count_, hidden_),
        output_bias_(count_, actions_) {
    TORCH_CHECK(hidden_ % 8 == 0 && count_ * hidden_ <= kMaxHeadColumns, count_, " heads of hidden width ", hidden_);
    const PackGroups hidden = padded_to(hidden_, hidden_), one = padded_to(1, 1);
    for (int i = 0; i < count_; ++i) {
      const HeadWeights& head = weights[static_cast<std::size_t>(i)];
      const PackGroups actions = padded_to(head.weight3_AI.size(0), actions_);
      weight1_.add(head.weight1_ID, i * hidden_, hidden,
                   padded_to(head.weight1_ID.size(1), static_cast<int>(x_MP.size(1))));
      weight2_.add(head.weight2_II, i * hidden_, hidden, hidden);
      weight3_.add(head.weight3_AI, i * actions_, actions, hidden);
      hidden_bias_.add(head.bias1_I, i, one, hidden);
      output_bias_.add(head.bias3_A, i, one, actions);
    }
    for (int i = 0; i < count_; ++i)
      hidden_bias_.add(weights[static_cast<std::size_t>(i)].bias2_I, count_ + i, one, hidden);
  }

  // For each head [M, actions] in float32.
  variable_list forward() {
    const auto dtype = x_MP_.scalar_type();
    const auto packed = WeightStack::packed({{weight1_, dtype},
                                             {weight2_, dtype},
                                             {weight3_, dtype},
                                             {hidden_bias_, dtype},
                                             {output_bias_, torch::kFloat32}});
    packed1_ = packed[0];
    packed2_ = packed[1];
    packed3_ = packed[2];
    const Tensor& hidden_bias = packed[3];
    const Tensor& output_bias = packed[4];
    first_ = affine(x_MP_, packed1_, hidden_bias.narrow(0, 0, count_).reshape({-1}), /*relu=*/true);
    variable_list outputs;
    for (int i = 0; i < count_; ++i) {
      second_.push_back(affine(own(first_, i), rows(packed2_, i, hidden_), hidden_bias.select(0, count_ + i), true));
      outputs.push_back(product_float(second_.back(), rows(packed3_, i, actions_).t()).add_(output_bias.select(0, i)));
    }
    return outputs;
  }

  // Gradients of x and of each head's six parameters.
  variable_list backward(const variable_list& gradient) {
    const auto dtype = x_MP_.scalar_type();
    const Tensor d_first = torch::empty_like(first_);
    const auto float_options = first_.options().dtype(torch::kFloat32);
    const Tensor d_weight2 = torch::empty({count_ * hidden_, hidden_}, float_options);
    const Tensor d_weight3 = torch::empty({count_ * actions_, hidden_}, float_options);
    const Tensor d_hidden_bias = torch::empty({2 * count_, hidden_}, float_options);
    const Tensor d_output_bias = torch::empty({count_, actions_}, float_options);
    const SideWork side(SideStreamOf::kWeights);
    variable_list kept;  // what the side still reads
    // The side's too: its gradient of the bias goes where all of them are unpacked from.
    const auto take = [&](const BiasGradient& gradient, const Tensor& to) {
      side.run([&] { to.copy_(gradient.bias.view(to.sizes())); });
      kept.insert(kept.end(), {gradient.bias, gradient.scratch});
    };
    for (int i = 0; i < count_; ++i) {
      const Tensor d_output = gradient[static_cast<std::size_t>(i)].contiguous();
      const Tensor& second = second_[static_cast<std::size_t>(i)];
      const Tensor d_narrow = d_output.to(dtype);
      take(relu_backward(d_output, {}, {}, side), d_output_bias.select(0, i));
      side.run([&] { rows(d_weight3, i, actions_).copy_(product_float(d_narrow.t(), second)); });
      const Tensor d_second = product(d_narrow, rows(packed3_, i, actions_));
      take(relu_backward(d_second, second, d_second, side), d_hidden_bias.select(0, count_ + i));
      side.run([&] { rows(d_weight2, i, hidden_).copy_(product_float(d_second.t(), own(first_, i))); });
      Tensor own_d_first = own(d_first, i);
      torch::mm_out(own_d_first, d_second, rows(packed2_, i, hidden_));
      kept.insert(kept.end(), {d_output, d_narrow, d_second});
    }
    take(relu_backward(d_first, first_, d_first, side), d_hidden_bias.narrow(0, 0, count_));
    std::vector<Tensor> weight1, weight2, weight3, hidden_bias, output_bias;
    side.run([&] {
      weight1 = weight1_.unpacked(product_float(d_first.t(), x_MP_));
      weight2 = weight2_.unpacked(d_weight2);
      weight3 = weight3_.unpacked(d_weight3);
      hidden_bias = hidden_bias_.unpacked(d_hidden_bias);
      output_bias = output_bias_.unpacked(d_output_bias);
    });
    variable_list gradients{product(d_first, packed1_)};
    side.join();
    for (std::size_t i = 0; i < weight1.size(); ++i)
      gradients.insert(gradients.end(), {weight1[i], hidden_bias[i], weight2[i], hidden_bias[weight1.size() + i],
                                         weight3[i], output_bias[i]});
    return gradients;
  }

 private:
  Tensor own(const Tensor& all_heads, int head) const { return all_heads.narrow(1, head * hidden_, hidden_); }
  static Tensor rows(const Tensor& stack, int head, int count) { return stack.narrow(0, head * count, count); }

  Tensor x_MP_;
  int hidden_, actions_, count_;
  WeightStack weight1_, weight2_, weight3_, hidden_bias_, output_bias_;
  Tensor packed1_, packed2_, packed3_;
  Tensor first_;
  std::vector<Tensor> second_;
};

class HeadsFunction : public torch::autograd::Function<HeadsFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x_MP, at::TensorList parameters) {
    std::vector<HeadWeights> weights;
    for (std::size_t i = 0; i < parameters.size(); i += 6)
      weights.push_back({parameters[i], parameters[i + 1], parameters[i + 2], parameters[i + 3], parameters[i + 4],
                         parameters[i + 5]});
    auto pass = c10::make_intrusive<HeadsPass>(x_MP.detach(), weights);
    variable_list outputs = pass->forward();
    context->saved_data["pass"] = c10::IValue::make_capsule(std::move(pass));
    return outputs;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const auto holder = context->saved_data["pass"].toCapsule();
    return static_cast<HeadsPass*>(holder.get())->backward(gradient);
  }
};

}  // namespace

Tensor linear(const Tensor& x_MP, const Tensor& weight_OI, const Tensor& bias_O, bool relu) {
  return LinearFunction::apply(x_MP, weight_OI, bias_O, relu);
}

std::vector<Tensor> heads(const Tensor& x_MP, const std::vector<HeadWeights>& weights) {
  variable_list parameters;
  for (const HeadWeights& head : weights)
    parameters.insert(parameters.end(),
                      {head.weight1_ID, head.bias1_I, head.weight2_II, head.bias2_I, head.weight3_AI, head.bias3_A});
  return HeadsFunction::apply(x_MP, at::TensorList(parameters));
}

}  // namespace engram::fused
