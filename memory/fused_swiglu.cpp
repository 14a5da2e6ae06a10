// The SwiGLU half of a fused block (fused_block.h): as products with the hidden units in memory between them, or as one
// kernel that keeps them on chip where the device has it.
#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/block/elementwise.h"
#include "kernels/swiglu/swiglu.h"
#include "memory/cuda_support.h"
#include "memory/fused_block.h"
#include "memory/fused_rows.h"
#include "memory/pass_function.h"
#include "memory/side_work.h"
#include "memory/weight_stack.h"

namespace engram::fused {
namespace {

using torch::Tensor;
using torch::autograd::variable_list;

// Wdown (silu(Wgate n) * Wup n) for normed rows n of P channels, once forward and once backward.
class SwiGlu {
 public:
  virtual ~SwiGlu() = default;

  virtual void pack_weights(torch::ScalarType dtype) = 0;
  virtual Tensor forward(const Tensor& normed_MP) = 0;

  // The weights' gradients are the side's; what it reads for them lives as long as this object and d_output_MP.
  struct Gradients {
    Tensor normed_MP;
    Tensor gate_ID, up_ID, down_DI;
  };
  virtual Gradients backward(const Tensor& d_output_MP, const SideWork& side) = 0;
};

class SwiGluOfProducts : public SwiGlu {
 public:
  SwiGluOfProducts(const SwiGluWeights& weights, std::int64_t stride)
      : inner_(static_cast<int>(weights.gate_ID.size(0))),
        input_stack_(2 * inner_, static_cast<int>(stride)),
        output_stack_(static_cast<int>(stride), inner_) {
    const PackGroups inner = padded_to(inner_, inner_);
    const PackGroups width = padded_to(weights.gate_ID.size(1), static_cast<int>(stride));
    input_stack_.add(weights.gate_ID, 0, inner, width);
    input_stack_.add(weights.up_ID, inner_, inner, width);
    output_stack_.add(weights.down_DI, 0, width, inner);
  }

  void pack_weights(torch::ScalarType dtype) override {
    const auto packed = WeightStack::packed({{input_stack_, dtype}, {output_stack_, dtype}});
    input_weight_ = packed[0];
    output_weight_ = packed[1];
  }

  Tensor forward(const Tensor& normed_MP) override {
    normed_MP_ = normed_MP;
    gate_up_ = product(normed_MP_, input_weight_.t());
    hidden_ = torch::empty({normed_MP.size(0), inner_}, gate_up_.options());
    swiglu_forward(normed_MP.size(0), inner_, kernel_dtype(normed_MP), gate_up_.data_ptr(), hidden_.data_ptr(),
                   current_stream());
    return product(hidden_, output_weight_.t());
  }

  Gradients backward(const Tensor& d_output_MP, const SideWork& side) override {
    variable_list d_outputs, d_inputs;
    side.run([&] { d_outputs = output_stack_.unpacked(product_float(d_output_MP.t(), hidden_)); });
    const Tensor d_hidden = product(d_output_MP, output_weight_);
    d_gate_up_ = torch::empty_like(gate_up_);
    swiglu_backward(d_hidden.size(0), inner_, kernel_dtype(d_hidden), gate_up_.data_ptr(), d_hidden.data_ptr(),
                    d_gate_up_.data_ptr(), current_stream());
    side.run([&] { d_inputs = input_stack_.unpacked(product_float(d_gate_up_.t(), normed_MP_)); });
    return {product(d_gate_up_, input_weight_), d_inputs[0], d_inputs[1], d_outputs[0]};
  }

 private:
  int inner_;
  WeightStack input_stack_, output_stack_;
  Tensor input_weight_, output_weight_;
  Tensor normed_MP_, gate_up_, hidden_, d_gate_up_;
};

// Keeps no hidden units, in no direction.
class SwiGluOnChip : public SwiGlu {
 public:
  SwiGluOnChip(const SwiGluWeights& weights, std::int64_t stride)
      : gate_ID_(weights.gate_ID.contiguous()),
        up_ID_(weights.up_ID.contiguous()),
        down_DI_(weights.down_DI.contiguous()),
        stride_(static_cast<int>(stride)) {}

  static bool takes(const SwiGluWeights& weights, const Tensor& x_MP) {
    return x_MP.scalar_type() == torch::kBFloat16 &&
           fused_swiglu_takes(static_cast<int>(x_MP.size(1)), static_cast<int>(weights.gate_ID.size(0)));
  }

  void pack_weights(torch::ScalarType) override {
    packed_ = scratch_bytes(fused_swiglu_weight_bytes(stride_, inner()), gate_ID_);
    fused_swiglu_pack({.width = width(),
                       .stride = stride_,
                       .inner = inner(),
                       .gate_ID = gate_ID_.data_ptr<float>(),
                       .up_ID = up_ID_.data_ptr<float>(),
                       .down_DI = down_DI_.data_ptr<float>()},
                      packed_.data_ptr(), current_stream());
  }

  Tensor forward(const Tensor& normed_MP) override {
    normed_MP_ = normed_MP;
    const Tensor y_MP = torch::empty_like(normed_MP);
    fused_swiglu_forward(input(), y_MP.data_ptr(), current_stream());
    return y_MP;
  }

  Gradients backward(const Tensor& d_output_MP, const SideWork& side) override {
    const Gradients d{torch::empty_like(normed_MP_), torch::empty_like(gate_ID_), torch::empty_like(up_ID_),
                      torch::empty_like(down_DI_)};
    sums_ = scratch_bytes(fused_swiglu_weight_gradient_scratch_bytes(input()), normed_MP_);
    fused_swiglu_backward(input(), {d_output_MP.data_ptr(), d.normed_MP.data_ptr()}, current_stream());
    side.run([&] {
      fused_swiglu_weight_gradient(input(),
                                   {.y = d_output_MP.data_ptr(),
                                    .gate_ID = d.gate_ID.data_ptr<float>(),
                                    .up_ID = d.up_ID.data_ptr<float>(),
                                    .down_DI = d.down_DI.data_ptr<float>()},
                                   sums_.data_ptr(), current_stream());
    });
    return d;
  }

 private:
  int width() const { return static_cast<int>(gate_ID_.size(1)); }
  int inner() const { return static_cast<int>(gate_ID_.size(0)); }
  FusedSwiGlu input() const {
    return {.rows = normed_MP_.size(0),
            .width = width(),
            .stride = stride_,
            .inner = inner(),
            .weights = packed_.data_ptr(),
            .x = normed_MP_.data_ptr()};
  }

  Tensor gate_ID_, up_ID_, down_DI_;
  int stride_;
  Tensor packed_, normed_MP_, sums_;
};

class SwiGluPass : public torch::CustomClassHolder {
 public:
  using Settings = DropoutPlace;

  // Parameters: norm, gate, up, down.
  SwiGluPass(const Tensor& x_MP, at::TensorList parameters, const DropoutPlace& dropout)
      : x_MP_(x_MP), norm_D_(parameters[0].detach()), dropout_(dropout) {
    const SwiGluWeights weights{norm_D_, parameters[1].detach(), parameters[2].detach(), parameters[3].detach()};
    if (SwiGluOnChip::takes(weights, x_MP))
      swiglu_ = std::make_unique<SwiGluOnChip>(weights, x_MP.size(1));
    else
      swiglu_ = std::make_unique<SwiGluOfProducts>(weights, x_MP.size(1));
  }

  Tensor forward() {
    const SideWork weights(SideStreamOf::kWeights);
    weights.run([&] { swiglu_->pack_weights(x_MP_.scalar_type()); });
    const Tensor normed_MP = normalized(x_MP_, norm_D_);
    weights.join();
    return dropped(swiglu_->forward(normed_MP), norm_D_.size(0), dropout_, x_MP_);
  }

  variable_list backward(const Tensor& gradient_MP) {
    const Tensor d_output_MP = dropped(gradient_MP, norm_D_.size(0), dropout_, {});
    const SideWork side(SideStreamOf::kWeights);
    const SwiGlu::Gradients d = swiglu_->backward(d_output_MP, side);
    const NormGradients d_x = normalized_backward(x_MP_, norm_D_, d.normed_MP, gradient_MP, side);
    side.join();
    return {d_x.x_MP, d_x.weight_D, d.gate_ID, d.up_ID, d.down_DI};
  }

 private:
  Tensor x_MP_, norm_D_;
  DropoutPlace dropout_;
  std::unique_ptr<SwiGlu> swiglu_;
};

}  // namespace

Tensor swiglu(const Tensor& x_MP, const SwiGluWeights& weights, const DropoutPlace& dropout) {
  const variable_list parameters{weights.norm_D, weights.gate_ID, weights.up_ID, weights.down_DI};
  return PassFunction<SwiGluPass>::apply(x_MP, at::TensorList(parameters), dropout);
}

}  // namespace engram::fused
