#include "memory/fused_gpt_block.h"

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/block/elementwise.h"
#include "memory/cuda_support.h"
#include "memory/fused_block.h"
#include "memory/fused_rows.h"
#include "memory/side_work.h"
#include "memory/weight_stack.h"

namespace engram::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<Tensor> list_of(std::initializer_list<AffineWeights> parts) {
  std::vector<Tensor> list;
  for (const AffineWeights& part : parts) list.insert(list.end(), {part.weight_OI, part.bias_O});
  return list;
}

class CausalAttentionBranch : public Branch {
 public:
  CausalAttentionBranch(const CausalAttentionWeights& weights, const CausalAttentionSettings& settings)
      : Branch(list_of({weights.query, weights.key, weights.value, weights.output})),
        settings_(settings),
        head_width_(settings.width / settings.heads),
        padded_(round_up(head_width_, kVectorElements)),
        part_(settings.heads * padded_),
        input_stack_(3 * part_, padded_width()),
        input_bias_stack_(3, part_),
        output_stack_(padded_width(), part_),
        output_bias_stack_(1, padded_width()) {
    const PackGroups by_head{settings.width, head_width_, padded_}, one = padded_to(1, 1);
    const PackGroups by_row = padded_to(settings.width, padded_width());
    int i = 0;
    for (const AffineWeights& part : {weights.query, weights.key, weights.value}) {
      input_stack_.add(part.weight_OI, i * part_, by_head, by_row);
      input_bias_stack_.add(part.bias_O, i++, one, by_head);
    }
    output_stack_.add(weights.output.weight_OI, 0, by_row, by_head);
    output_bias_stack_.add(weights.output.bias_O, 0, one, by_row);
  }

  void pack_weights(torch::ScalarType dtype) override {
    const auto packed = WeightStack::packed(
        {{input_stack_, dtype}, {output_stack_, dtype}, {input_bias_stack_, dtype}, {output_bias_stack_, dtype}});
    input_weight_ = packed[0];
    output_weight_ = packed[1];
    input_bias_ = packed[2].view({-1});
    output_bias_ = packed[3].view({-1});
  }

  Tensor forward(const Tensor& normed_MP) override {
    TORCH_CHECK(normed_MP.size(0) == settings_.batch * settings_.steps, normed_MP.size(0), " rows of ", settings_.batch,
                " x ", settings_.steps);
    normed_MP_ = normed_MP;
    projected_ = torch::addmm(input_bias_, normed_MP_, input_weight_.t());
    attended_ = torch::empty({normed_MP.size(0), part_}, projected_.options());
    const AttentionInput input = attention_input();
    attention_saved_ =
        scratch_bytes(attention_saved_bytes(input.shape, kernel_dtype(normed_MP), input.dropout.drops()), normed_MP);
    attention_forward(attention_input(), attended_.data_ptr(), attention_saved_.data_ptr(), current_stream());
    return torch::addmm(output_bias_, attended_, output_weight_.t());
  }

  Gradients backward(const Tensor& d_output_MP, SideWork& side) override {
    std::vector<Tensor> d_output_weight, d_weight, d_bias;
    Tensor d_output_bias;
    side.run([&] {
      d_output_weight = output_stack_.unpacked(product_float(d_output_MP.t(), attended_));
      d_output_bias = column_sums(d_output_MP).narrow(0, 0, settings_.width);
    });
    const Tensor d_attended = product(d_output_MP, output_weight_);

    const AttentionInput input = attention_input();
    const Tensor d_projected = torch::empty_like(projected_);
    const Tensor scratch = scratch_bytes(attention_backward_scratch_bytes(input.shape), attended_);
    attention_backward(input, {attended_.data_ptr(), attention_saved_.data_ptr(), d_attended.data_ptr()},
                       {.head_stride = padded_,
                        .q = {d_projected.data_ptr(), 3 * part_},
                        .k = {at_element(d_projected, part_), 3 * part_},
                        .v = {at_element(d_projected, 2 * part_), 3 * part_}},
                       scratch.data_ptr(), current_stream());

    side.run([&] {
      d_weight = input_stack_.unpacked(product_float(d_projected.t(), normed_MP_));
      d_bias = input_bias_stack_.unpacked(column_sums(d_projected));
    });
    side.keep({d_output_MP, d_projected});
    Gradients gradients{product(d_projected, input_weight_), {}};
    for (std::size_t i = 0; i < d_weight.size(); ++i)
      gradients.parameters.insert(gradients.parameters.end(), {d_weight[i], d_bias[i]});
    gradients.parameters.insert(gradients.parameters.end(), {d_output_weight[0], d_output_bias});
    return gradients;
  }

 private:
  int padded_width() const { return round_up(settings_.width, kWidthMultiple); }
  AttentionInput attention_input() const {
    const auto steps = static_cast<int>(settings_.steps);
    return {.shape = {static_cast<int>(settings_.batch), steps, settings_.heads, padded_},
            .dtype = kernel_dtype(normed_MP_),
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
  int head_width_, padded_;
  int part_;  // columns of all heads
  WeightStack input_stack_, input_bias_stack_, output_stack_, output_bias_stack_;
  Tensor input_weight_, input_bias_, output_weight_, output_bias_;
  Tensor normed_MP_, projected_, attended_, attention_saved_;
};

class GeluMlpBranch : public Branch {
 public:
  explicit GeluMlpBranch(const GeluMlpWeights& weights)
      : Branch(list_of({weights.up, weights.down})),
        up_bias_I_(weights.up.bias_O.detach()),
        width_(static_cast<int>(weights.down.bias_O.size(0))),
        inner_(round_up(up_bias_I_.size(0), kWidthMultiple)),
        up_stack_(inner_, round_up(width_, kWidthMultiple)),
        down_stack_(round_up(width_, kWidthMultiple), inner_),
        down_bias_stack_(1, round_up(width_, kWidthMultiple)) {
    const PackGroups inner = padded_to(up_bias_I_.size(0), inner_);
    const PackGroups by_row = padded_to(width_, round_up(width_, kWidthMultiple));
    up_stack_.add(weights.up.weight_OI, 0, inner, by_row);
    down_stack_.add(weights.down.weight_OI, 0, by_row, inner);
    down_bias_stack_.add(weights.down.bias_O, 0, padded_to(1, 1), by_row);
  }

  void pack_weights(torch::ScalarType dtype) override {
    const auto packed = WeightStack::packed({{up_stack_, dtype}, {down_stack_, dtype}, {down_bias_stack_, dtype}});
    up_weight_ = packed[0];
    down_weight_ = packed[1];
    down_bias_ = packed[2].view({-1});
  }

  Tensor forward(const Tensor& normed_MP) override {
    normed_MP_ = normed_MP;
    up_ = product(normed_MP_, up_weight_.t());
    hidden_ = torch::empty_like(up_);
    gelu_bias_forward(gelu(), hidden_.data_ptr(), current_stream());
    return torch::addmm(down_bias_, hidden_, down_weight_.t());
  }

  Gradients backward(const Tensor& d_output_MP, SideWork& side) override {
    std::vector<Tensor> d_up_weight, d_down_weight;
    Tensor d_down_bias;
    side.run([&] {
      d_down_weight = down_stack_.unpacked(product_float(d_output_MP.t(), hidden_));
      d_down_bias = column_sums(d_output_MP).narrow(0, 0, width_);
    });
    const Tensor d_up = product(d_output_MP, down_weight_);  // of the hidden layer, and before gelu
    const Tensor d_up_bias = torch::empty_like(up_bias_I_);
    const Tensor scratch = scratch_bytes(gelu_bias_backward_scratch_bytes(gelu()), up_);
    gelu_bias_backward(gelu(), d_up.data_ptr(), d_up.data_ptr(), scratch.data_ptr(), current_stream());
    side.run([&] {
      d_up_weight = up_stack_.unpacked(product_float(d_up.t(), normed_MP_));
      gelu_bias_add_sums(gelu(), scratch.data_ptr(), d_up_bias.data_ptr<float>(), current_stream());
    });
    side.keep({d_output_MP, d_up, scratch});
    return {product(d_up, up_weight_), {d_up_weight[0], d_up_bias, d_down_weight[0], d_down_bias}};
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

  Tensor up_bias_I_;
  int width_, inner_;
  WeightStack up_stack_, down_stack_, down_bias_stack_;
  Tensor up_weight_, down_weight_, down_bias_;
  Tensor normed_MP_, up_, hidden_;
};

class CodedRowsFunction : public torch::autograd::Function<CodedRowsFunction> {
 public:
  static Tensor forward(AutogradContext*, const Tensor& x_BTD, const Tensor& code_TD) {
    const Tensor rows_MP = torch::empty({x_BTD.size(0) * x_BTD.size(1), round_up(x_BTD.size(2), kWidthMultiple)},
                                        x_BTD.options().requires_grad(false));
    Tensor coded_BTD = unpadded_view(rows_MP, x_BTD.sizes());
    torch::add_out(coded_BTD, x_BTD.detach(), code_TD);
    return coded_BTD;
  }
  static variable_list backward(AutogradContext*, const variable_list& gradient) { return {gradient[0], Tensor()}; }
};

}  // namespace

Tensor rows_with_code(const Tensor& x_BTD, const Tensor& code_TD) { return CodedRowsFunction::apply(x_BTD, code_TD); }

std::unique_ptr<Branch> causal_attention_branch(const CausalAttentionWeights& weights,
                                                const CausalAttentionSettings& settings) {
  return std::make_unique<CausalAttentionBranch>(weights, settings);
}

std::unique_ptr<Branch> gelu_mlp_branch(const GeluMlpWeights& weights) {
  return std::make_unique<GeluMlpBranch>(weights);
}

}  // namespace engram::fused
