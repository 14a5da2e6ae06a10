#include "memory/fused/causal_attention.h"

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/block/elementwise.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/packed_weights.h"
#include "nn/fused/rows.h"
#include "nn/fused/side_work.h"

namespace engram::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class CausalAttentionBranch : public Branch {
 public:
  CausalAttentionBranch(const CausalAttentionWeights& weights, const CausalAttentionSettings& settings)
      : Branch(list_of({weights.query, weights.key, weights.value, weights.output})),
        settings_(settings),
        head_width_(settings.width / settings.heads),
        padded_(round_up(head_width_, kVectorElements)),
        part_(settings.heads * padded_),
        input_packed_(3 * part_, padded_width()),
        input_bias_packed_(3, part_),
        output_packed_(padded_width(), part_),
        output_bias_packed_(1, padded_width()) {
    const PackGroups by_head{settings.width, head_width_, padded_}, one = padded_to(1, 1);
    const PackGroups by_row = padded_to(settings.width, padded_width());
    int i = 0;
    for (const AffineWeights& part : {weights.query, weights.key, weights.value}) {
      input_packed_.add(part.weight_OI, i * part_, by_head, by_row);
      input_bias_packed_.add(part.bias_O, i++, one, by_head);
    }
    output_packed_.add(weights.output.weight_OI, 0, by_row, by_head);
    output_bias_packed_.add(weights.output.bias_O, 0, one, by_row);
  }

  void pack_weights(WeightPacking& packing) override {
    input_weight_ = packing.add(input_packed_);
    output_weight_ = packing.add(output_packed_);
    input_bias_ = packing.add(input_bias_packed_).view({-1});
    output_bias_ = packing.add(output_bias_packed_).view({-1});
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
    Tensor d_output_weight, d_input_weight;
    side.run([&] { d_output_weight = weight_gradient(d_output_MP, attended_); });
    const Tensor d_output_bias = column_sums(d_output_MP, side).narrow(0, 0, settings_.width);
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

    side.run([&] { d_input_weight = weight_gradient(d_projected, normed_MP_); });
    const Tensor d_input_bias = column_sums(d_projected, side);
    side.make_sums();  // what the gradients of the biases, by head, are made of
    const std::vector<Tensor> d_weight = input_packed_.gradients(d_input_weight, side),
                              d_bias = input_bias_packed_.gradients(d_input_bias, side);
    side.keep({d_output_MP, d_projected});
    Gradients gradients{product(d_projected, input_weight_), {}};
    for (std::size_t i = 0; i < d_weight.size(); ++i)
      gradients.parameters.insert(gradients.parameters.end(), {d_weight[i], d_bias[i]});
    gradients.parameters.insert(gradients.parameters.end(),
                                {output_packed_.gradients(d_output_weight, side)[0], d_output_bias});
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
            .dropout = settings_.weight_dropout};
  }

  CausalAttentionSettings settings_;
  int head_width_, padded_;
  int part_;  // columns of all heads
  PackedWeights input_packed_, input_bias_packed_, output_packed_, output_bias_packed_;
  Tensor input_weight_, input_bias_, output_weight_, output_bias_;
  Tensor normed_MP_, projected_, attended_, attention_saved_;
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

}  // namespace engram::fused
