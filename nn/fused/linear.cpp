#include "nn/fused/linear.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "nn/fused/rows.h"
#include "nn/fused/small_product.h"
#include "nn/fused/weights/packed_weights.h"

namespace engram::cuda {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// In the order of the gradients.
variable_list parameters_of(const std::vector<LinearLayer>& layers) {
  variable_list all;
  for (const LinearLayer& layer : layers) all.insert(all.end(), {layer.weight_OI, layer.bias_O});
  return all;
}

class LinearPass : public torch::CustomClassHolder {
 public:
  LinearPass(const Tensor& x_MP, const std::vector<LinearLayer>& layers)
      : x_MP_(x_MP), of_leaves_(are_leaves(parameters_of(layers))) {
    auto inputs = static_cast<int>(x_MP.size(1));
    for (const LinearLayer& layer : layers) inputs = layers_.emplace_back(layer, inputs).padded_outputs();
  }

  Tensor forward() {
    WeightPacking packing(x_MP_.scalar_type());
    std::vector<Tensor> biases;
    for (Layer& layer : layers_) {
      layer.weight = packing.add(layer.weights);
      biases.push_back(packing.add(layer.biases).view({-1}));
    }
    packing.run();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Activation activation = layers_[i].activation;
      layers_[i].y_MP = affine(input_of(i), layers_[i].weight, biases[i], activation == Activation::kRelu);
      if (activation == Activation::kLeakyRelu) torch::leaky_relu_(layers_[i].y_MP, kLeakySlope);
    }
    return layers_.back().y_MP;
  }

  // The gradients of x (if it is wanted) and of the parameters.
  variable_list backward(const Tensor& gradient_MP, bool wants_x) {
    SideWork side(SideStreamOf::kLayerWeights);
    variable_list reversed;
    Tensor d_y = gradient_MP;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const Layer& layer = layers_[i];
      const bool bent = layer.activation != Activation::kNone;
      const float slope = layer.activation == Activation::kLeakyRelu ? kLeakySlope : 0;
      const Tensor d_affine = bent ? torch::empty_like(d_y) : d_y;
      const Tensor d_bias = bent ? relu_backward(d_y, layer.y_MP, d_affine, side, slope) : column_sums(d_y, side);
      Tensor d_weight;
      side.run([&] { d_weight = weight_gradient(d_affine, input_of(i)); });
      reversed.insert(reversed.end(), {d_bias.narrow(0, 0, layer.outputs), layer.weights.gradients(d_weight, side)[0]});
      side.keep({d_affine});
      d_y = i > 0 || wants_x ? product(d_affine, layer.weight) : Tensor();
    }
    side.finish(reversed, of_leaves_);
    reversed.push_back(d_y);
    return {reversed.rbegin(), reversed.rend()};
  }

 private:
  struct Layer {
    Layer(const LinearLayer& layer, int inputs)
        : activation(layer.activation),
          outputs(static_cast<int>(layer.weight_OI.size(0))),
          weights(padded_outputs(), inputs),
          biases(1, padded_outputs()) {
      const PackGroups by_output = padded_to(outputs, padded_outputs());
      weights.add(layer.weight_OI, 0, by_output, padded_to(layer.weight_OI.size(1), inputs));
      biases.add(layer.bias_O, 0, padded_to(1, 1), by_output);
    }
    int padded_outputs() const { return round_up(outputs, kWidthMultiple); }

    Activation activation;
    int outputs;
    PackedWeights weights, biases;
    Tensor weight, y_MP;
  };

  const Tensor& input_of(std::size_t i) const { return i == 0 ? x_MP_ : layers_[i - 1].y_MP; }

  Tensor x_MP_;
  bool of_leaves_;  // all parameters are
  std::vector<Layer> layers_;
};

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_MP, at::TensorList parameters,
                        const c10::intrusive_ptr<LinearPass>& pass) {
    (void)x_MP, (void)parameters;  // what the graph follows; the pass has them
    const Tensor y_MP = pass->forward();
    context->saved_data["pass"] = c10::IValue::make_capsule(pass);
    // The pass keeps the output's values; a shared handle would make the graph keep itself.
    return y_MP.alias();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const auto holder = context->saved_data["pass"].toCapsule();
    variable_list gradients =
        static_cast<LinearPass&>(*holder).backward(gradient[0].contiguous(), context->needs_input_grad(0));
    gradients.emplace_back();  // of the pass
    return gradients;
  }
};

}  // namespace

Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
  if (std::optional<Tensor> y = small_product(x, weight.t(), bias, relu)) return *std::move(y);
  return relu ? torch::_addmm_activation(bias, x, weight.t()) : torch::addmm(bias, x, weight.t());
}

Tensor affine_float(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (std::optional<Tensor> y = small_product_float(x, weight.t(), bias)) return *std::move(y);
  return product_float(x, weight.t()).add_(bias);
}

Tensor relu_backward(const Tensor& dy, const Tensor& y, const Tensor& dx, SideWork& side, float slope) {
  const Tensor bias = torch::empty({dy.size(1)}, dy.options().dtype(torch::kFloat32));
  const ColumnBlocks blocks({.rows = dy.size(0),
                             .columns = static_cast<int>(dy.size(1)),
                             .dtype = kernel_dtype(dy),
                             .y = y.data_ptr(),
                             .slope = slope,
                             .y_stride = y.stride(0),
                             .dy = dy.data_ptr(),
                             .dy_stride = dy.stride(0),
                             .dx = dx.data_ptr(),
                             .dx_stride = dx.stride(0),
                             .bias = bias.data_ptr<float>()},
                            dy);
  blocks.backward();
  blocks.add_sums(side);
  return bias;
}

Tensor linear_layers(const Tensor& x_MP, const std::vector<LinearLayer>& layers) {
  const variable_list parameters = parameters_of(layers);
  return LinearFunction::apply(x_MP, at::TensorList(parameters),
                               c10::make_intrusive<LinearPass>(x_MP.detach(), layers));
}

}  // namespace engram::cuda
