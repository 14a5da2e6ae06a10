#include "memory/fused_gpt_block.h"

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/block/elementwise.h"
#include "memory/cuda_support.h"
#include "memory/fused_block.h"
#include "memory/fused_rows.h"
#include "memory/pass_function.h"
#include "memory/side_work.h"
#include "memory/weight_stack.h"

namespace engram::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int kVectorElements = 8;

class CausalAttentionPass : public torch::CustomClassHolder {
 public:
  using Settings = CausalAttentionSettings;

  // Parameters: weight and bias of norm, query, key, value, output.
  CausalAttentionPass(const Tensor& x_MP, at::TensorList parameters, const Settings& settings)
      : settings_(settings),
        x_MP_(x_MP),
        norm_(parameters[0].detach(), parameters[1].detach()),
        head_width_(settings.width / settings.heads),
        padded_(round_up(head_width_, kVectorElements)),
        part_(settings.heads * padded_),
        input_stack_(3 * part_, static_cast<int>(x_MP.size(1))),
        input_bias_(3, part_),
        output_stack_(static_cast<int>(x_MP.size(1)), part_),
        output_bias_(1, static_cast<int>(x_MP.size(1))) {
    const PackGroups by_head{settings.width, head_width_, padded_}, one = padded_to(1, 1);
    const PackGroups by_row = padded_to(settings.width, static_cast<int>(x_MP.size(1)));
    for (int i = 0; i < 3; ++i) {
      input_stack_.add(parameters[2 + 2 * i], i * part_, by_head, by_row);
      input_bias_.add(parameters[3 + 2 * i], i, one, by_head);
    }
    output_stack_.add(parameters[8], 0, by_row, by_head);
    output_bias_.add(parameters[9], 0, one, by_row);
  }

  Tensor forward() {
    const auto dtype = x_MP_.scalar_type();
    const SideWork side(SideStreamOf::kWeights);
    std::vector<Tensor> packed;
    side.run([&] {
      packed = WeightStack::packed(
          {{input_stack_, dtype}, {output_stack_, dtype}, {input_bias_, dtype}, {output_bias_, dtype}});
    });
    normed_MP_ = normalized(x_MP_, norm_);
    side.join();
    input_weight_ = packed[0];
    output_weight_ = packed[1];
    projected_ = torch::addmm(packed[2].view({-1}), normed_MP_, input_weight_.t());
    attended_ = torch::empty({x_MP_.size(0), part_}, projected_.options());
    const AttentionInput input = attention_input();
    attention_saved_ =
        scratch_bytes(attention_saved_bytes(input.shape, kernel_dtype(x_MP_), input.dropout.drops()), x_MP_);
    attention_forward(attention_input(), attended_.data_ptr(), attention_saved_.data_ptr(), current_stream());
    const Tensor output_MP = torch::addmm(packed[3].view({-1}), attended_, output_weight_.t());
    return dropped(output_MP, settings_.width, settings_.output_dropout, x_MP_);
  }

  variable_list backward(const Tensor& gradient_MP) {
    const Tensor d_output_MP = dropped(gradient_MP, settings_.width, settings_.output_dropout, {});
    const SideWork side(SideStreamOf::kWeights);
    std::vector<Tensor> d_output_weight, d_weight, d_bias;
    Tensor d_output_bias;
    side.run([&] {
      d_output_weight = output_stack_.unpacked(product_float(d_output_MP.t(), attended_));
      d_output_bias = column_sums(d_output_MP).narrow(0, 0, settings_.width);
    });
    const Tensor d_attended = product(d_output_MP, output_weight_);

    const AttentionInput input = attention_input();
    const Tensor d_projected = torch::empty_like(projected_);
    const Tensor scratch = scratch_bytes(attention_backward_scratch_bytes(input.shape), x_MP_);
    attention_backward(input, {attended_.data_ptr(), attention_saved_.data_ptr(), d_attended.data_ptr()},
                       {.head_stride = padded_,
                        .q = {d_projected.data_ptr(), 3 * part_},
                        .k = {at_element(d_projected, part_), 3 * part_},
                        .v = {at_element(d_projected, 2 * part_), 3 * part_}},
                       scratch.data_ptr(), current_stream());

    side.run([&] {
      d_weight = input_stack_.unpacked(product_float(d_projected.t(), normed_MP_));
      d_bias = input_bias_.unpacked(column_sums(d_projected));
    });
    const NormGradients d_x = normalized_backward(x_MP_, norm_, product(d_projected, input_weight_), gradient_MP, side);
    side.join();
    variable_list gradients{d_x.x_MP, d_x.weight_D, d_x.bias_D};
    for (std::size_t i = 0; i < d_weight.size(); ++i) gradients.insert(gradients.end(), {d_weight[i], d_bias[i]});
    gradients.insert(gradients.end(), {d_output_weight[0], d_output_bias});
    return gradients;
  }

 private:
  AttentionInput attention_input() const {
    const auto steps = static_cast<int>(settings_.steps);
    return {.shape = {static_cast<int>(settings_.batch), steps, settings_.heads, padded_},
            .dtype = kernel_dtype(x_MP_),
            .scale = 1.0f / std::sqrt(static_cast<float>(head_width_)),
            .window = steps,
            .rotary_width = 0,
            .head_stride = padded_,
            .q = {projected_.data_ptr(), 3 * part_},
            .k = {at_element(projected_, part_), 3 * part_},
            .v = {at_element(projected_, 2 * part_), 3 * part_},
            .length_B = settings_.lengths_B.data_ptr<std::int64_t>(),
            .dropout = settings_.weight_dropout,
            .past = {}};
  }

  CausalAttentionSettings settings_;
  Tensor x_MP_;
  Norm norm_;
  int head_width_, padded_;
  int part_;  // columns of all heads
  WeightStack input_stack_, input_bias_, output_stack_, output_bias_;
  Tensor input_weight_, output_weight_;
  Tensor normed_MP_, projected_, attended_, attention_saved_;
};

class GeluMlpPass : public torch::CustomClassHolder {
 public:
  using Settings = DropoutPlace;

  // Parameters: weight and bias of norm, up, down.
  GeluMlpPass(const Tensor& x_MP, at::TensorList parameters, const DropoutPlace& dropout)
      : x_MP_(x_MP),
        norm_(parameters[0].detach(), parameters[1].detach()),
        up_bias_I_(parameters[3].detach()),
        dropout_(dropout),
        width_(static_cast<int>(norm_.weight_D.size(0))),
        inner_(round_up(static_cast<int>(up_bias_I_.size(0)), kWidthMultiple)),
        up_stack_(inner_, static_cast<int>(x_MP.size(1))),
        down_stack_(static_cast<int>(x_MP.size(1)), inner_),
        down_bias_(1, static_cast<int>(x_MP.size(1))) {
    const PackGroups inner = padded_to(static_cast<int>(up_bias_I_.size(0)), inner_);
    const PackGroups by_row = padded_to(width_, static_cast<int>(x_MP.size(1)));
    up_stack_.add(parameters[2], 0, inner, by_row);
    down_stack_.add(parameters[4], 0, by_row, inner);
    down_bias_.add(parameters[5], 0, padded_to(1, 1), by_row);
  }

  Tensor forward() {
    const auto dtype = x_MP_.scalar_type();
    const SideWork side(SideStreamOf::kWeights);
    std::vector<Tensor> packed;
    side.run([&] { packed = WeightStack::packed({{up_stack_, dtype}, {down_stack_, dtype}, {down_bias_, dtype}}); });
    normed_MP_ = normalized(x_MP_, norm_);
    side.join();
    up_weight_ = packed[0];
    down_weight_ = packed[1];
    up_ = product(normed_MP_, up_weight_.t());
    hidden_ = torch::empty_like(up_);
    gelu_bias_forward(gelu(), hidden_.data_ptr(), current_stream());
    const Tensor output_MP = torch::addmm(packed[2].view({-1}), hidden_, down_weight_.t());
    return dropped(output_MP, width_, dropout_, x_MP_);
  }

  variable_list backward(const Tensor& gradient_MP) {
    const Tensor d_output_MP = dropped(gradient_MP, width_, dropout_, {});
    const SideWork side(SideStreamOf::kWeights);
    std::vector<Tensor> d_up_weight, d_down_weight;
    Tensor d_down_bias;
    side.run([&] {
      d_down_weight = down_stack_.unpacked(product_float(d_output_MP.t(), hidden_));
      d_down_bias = column_sums(d_output_MP).narrow(0, 0, width_);
    });
    const Tensor d_up = product(d_output_MP, down_weight_);  // of the hidden layer, and before gelu
    const Tensor d_up_bias = torch::empty_like(up_bias_I_);
    const Tensor scratch = scratch_bytes(gelu_bias_backward_scratch_bytes(gelu()), x_MP_);
    gelu_bias_backward(gelu(), d_up.data_ptr(), d_up.data_ptr(), scratch.data_ptr(), current_stream());
    side.run([&] {
      d_up_weight = up_stack_.unpacked(product_float(d_up.t(), normed_MP_));
      gelu_bias_add_sums(gelu(), scratch.data_ptr(), d_up_bias.data_ptr<float>(), current_stream());
    });
    const NormGradients d_x = normalized_backward(x_MP_, norm_, product(d_up, up_weight_), gradient_MP, side);
    side.join();
    return {d_x.x_MP, d_x.weight_D, d_x.bias_D, d_up_weight[0], d_up_bias, d_down_weight[0], d_down_bias};
  }

 private:
  GeluBias gelu() const {
    return {.rows = up_.size(0),
            .columns = inner_,
            .width = static_cast<int>(up_bias_I_.size(0)),
            .dtype = kernel_dtype(up_),
            .x = up_.data_ptr(),
            .bias = up_bias_I_.data_ptr<float>()};
  }

  Tensor x_MP_;
  Norm norm_;
  Tensor up_bias_I_;
  DropoutPlace dropout_;
  int width_, inner_;
  WeightStack up_stack_, down_stack_, down_bias_;
  Tensor up_weight_, down_weight_;
  Tensor normed_MP_, up_, hidden_;
};

class LayerNormPass : public torch::CustomClassHolder {
 public:
  using Settings = NoSettings;

  // Parameters: weight and bias.
  LayerNormPass(const Tensor& x_MP, at::TensorList parameters, Settings)
      : x_MP_(x_MP), norm_(parameters[0].detach(), parameters[1].detach()) {}
  Tensor forward() const { return normalized(x_MP_, norm_); }
  variable_list backward(const Tensor& gradient_MP) {
    const SideWork side(SideStreamOf::kWeights);
    const NormGradients out = normalized_backward(x_MP_, norm_, gradient_MP, Tensor(), side);
    side.join();
    return {out.x_MP, out.weight_D, out.bias_D};
  }

 private:
  Tensor x_MP_;
  Norm norm_;
};

class CodedRowsFunction : public torch::autograd::Function<CodedRowsFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_BTD, const Tensor& code_TD) {
    context->saved_data["shape"] = x_BTD.sizes().vec();
    const Tensor rows_MP = torch::zeros({x_BTD.size(0) * x_BTD.size(1), round_up(x_BTD.size(2), kWidthMultiple)},
                                        x_BTD.options().requires_grad(false));
    Tensor coded_BTD = unpadded_view(rows_MP, x_BTD.sizes());
    torch::add_out(coded_BTD, x_BTD.detach(), code_TD);
    return rows_MP;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const std::vector<std::int64_t> shape = context->saved_data["shape"].toIntVector();
    return {unpadded_view(gradient[0].contiguous(), shape), Tensor()};
  }
};

}  // namespace

Tensor rows_with_code(const Tensor& x_BTD, const Tensor& code_TD) { return CodedRowsFunction::apply(x_BTD, code_TD); }

Tensor layer_norm(const Tensor& x_MP, const AffineWeights& norm) {
  const variable_list parameters{norm.weight_OI, norm.bias_O};
  return PassFunction<LayerNormPass>::apply(x_MP, at::TensorList(parameters), NoSettings{});
}

Tensor causal_attention(const Tensor& x_MP, const CausalAttentionWeights& weights,
                        const CausalAttentionSettings& settings) {
  TORCH_CHECK(x_MP.size(0) == settings.batch * settings.steps, x_MP.size(0), " rows of ", settings.batch, " x ",
              settings.steps);
  variable_list parameters;
  for (const AffineWeights& part : {weights.norm, weights.query, weights.key, weights.value, weights.output})
    parameters.insert(parameters.end(), {part.weight_OI, part.bias_O});
  return PassFunction<CausalAttentionPass>::apply(x_MP, at::TensorList(parameters), settings);
}

Tensor gelu_mlp(const Tensor& x_MP, const GeluMlpWeights& weights, const DropoutPlace& dropout) {
  variable_list parameters;
  for (const AffineWeights& part : {weights.norm, weights.up, weights.down})
    parameters.insert(parameters.end(), {part.weight_OI, part.bias_O});
  return PassFunction<GeluMlpPass>::apply(x_MP, at::TensorList(parameters), dropout);
}

}  // namespace engram::fused
