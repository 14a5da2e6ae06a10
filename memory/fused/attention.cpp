#include "memory/fused/attention.h"

#include <cmath>
#include <utility>

#include "memory/fused/window_attention.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/rows.h"

namespace engram::cuda {

using torch::Tensor;

WindowAttention::WindowAttention(const HeadShape& shape, std::int64_t batch, std::int64_t steps,
                                 const Tensor& lengths_B, const WindowSettings& settings)
    : lengths_B_(lengths_B),
      input_{.shape = {static_cast<int>(batch), static_cast<int>(steps), shape.heads, shape.padded},
             .dtype = {},
             .scale = 1.0f / std::sqrt(static_cast<float>(shape.channels)),
             .window = static_cast<int>(settings.window),
             .rotary_width = settings.rotary ? shape.channels : 0,
             .head_stride = shape.padded,
             .q = {},
             .k = {},
             .v = {},
             .length_B = lengths_B_.data_ptr<std::int64_t>(),
             .dropout = settings.weight_dropout,
             .chunked = settings.chunked} {}

Tensor WindowAttention::forward(const AttentionRows& q, const AttentionRows& k, const AttentionRows& v,
                                const Tensor& like) {
  const AttentionShape& shape = input_.shape;
  input_.dtype = kernel_dtype(like);
  input_.q = q;
  input_.k = k;
  input_.v = v;
  output_ =
      torch::empty({std::int64_t{shape.batch} * shape.time, std::int64_t{shape.heads} * shape.width}, like.options());
  saved_ = scratch_bytes(attention_saved_bytes(shape, input_.dtype, input_.dropout.drops()), like);
  attention_forward(input_, output_.data_ptr(), saved_.data_ptr(), current_stream());
  return output_;
}

void WindowAttention::backward(const Tensor& d_output, const AttentionMutableRows& d_q, const AttentionMutableRows& d_k,
                               const AttentionMutableRows& d_v) const {
  const Tensor scratch = scratch_bytes(attention_backward_scratch_bytes(input_.shape), output_);
  attention_backward(input_, {output_.data_ptr(), saved_.data_ptr(), d_output.data_ptr()},
                     {.head_stride = input_.head_stride, .q = d_q, .k = d_k, .v = d_v}, scratch.data_ptr(),
                     current_stream());
}

void attention_step_of_rows(const HeadShape& shape, const AttentionRows& q, const AttentionRows& k,
                            const AttentionRows& v, const Tensor& position_N, const KeyValueRing& ring,
                            const WindowSettings& settings, const Tensor& output) {
  engram::attention_step({.rows = static_cast<int>(output.size(0)),
                          .heads = shape.heads,
                          .width = shape.channels,
                          .dtype = kernel_dtype(output),
                          .scale = 1.0f / std::sqrt(static_cast<float>(shape.channels)),
                          .rotary_width = settings.rotary ? shape.channels : 0,
                          .head_stride = shape.padded,
                          .q = q,
                          .k = k,
                          .v = v,
                          .position_N = position_N.data_ptr<std::int64_t>(),
                          .ring = {.dtype = Dtype::kFloat32,
                                   .slots = static_cast<int>(settings.window),
                                   .key_BSHW = ring.key_BSHK.data_ptr<float>(),
                                   .value_BSHW = ring.value_BSHV.data_ptr<float>()},
                          .chunked = settings.chunked,
                          .output_width = shape.padded,
                          .output_NHP = output.data_ptr(),
                          .dropout = settings.weight_dropout},
                         current_stream());
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class AttentionCore : public Core {
 public:
  AttentionCore(const AttentionWeights& weights, const HeadShape& shape, const FreshRows& rows,
                const WindowSettings& settings)
      : Core(shape),
        rows_(rows.batch * rows.steps),
        attention_(shape, rows.batch, rows.steps, rows.lengths_B, settings) {
    for (const AffineWeights& map : {weights.query, weights.key, weights.value}) projection_.add_by_head(map);
  }

  Tensor forward(const Tensor& projected_MC) override {
    TORCH_CHECK(projected_MC.size(0) == rows_, projected_MC.size(0), " rows instead of ", rows_);
    projected_ = projected_MC;
    return attention_.forward({part(projected_, 0), columns()}, {part(projected_, 1), columns()},
                              {part(projected_, 2), columns()}, projected_);
  }

  Gradients backward(const Tensor& d_output_MP, SideWork&) override {
    const Tensor d_projected = torch::empty_like(projected_);
    attention_.backward(d_output_MP, {part(d_projected, 0), columns()}, {part(d_projected, 1), columns()},
                        {part(d_projected, 2), columns()});
    return {d_projected, {}};
  }

 private:
  int columns() const { return projection_.columns(); }
  void* part(const Tensor& projected, int number) const {
    return at_element(projected, std::int64_t{number} * projection_.shape().part);
  }

  std::int64_t rows_;
  WindowAttention attention_;
  Tensor projected_;
};

class AttentionStepCore : public ForwardCore {
 public:
  AttentionStepCore(const AttentionWeights& weights, const HeadShape& shape, const Tensor& position_B,
                    const KeyValueRing& ring, const WindowSettings& settings)
      : ForwardCore(shape), position_B_(position_B), ring_(ring), settings_(settings) {
    TORCH_CHECK(ring.key_BSHK.is_contiguous() && ring.value_BSHV.is_contiguous(), "a ring is not contiguous");
    for (const AffineWeights& map : {weights.query, weights.key, weights.value}) projection_.add_by_head(map);
  }

  Tensor forward(const Tensor& projected_MC) override {
    const HeadShape& shape = projection_.shape();
    const auto part = [&](std::int64_t number) {
      return AttentionRows{at_element(projected_MC, number * shape.part), projection_.columns()};
    };
    const Tensor output = torch::empty({projected_MC.size(0), shape.part}, projected_MC.options());
    attention_step_of_rows(shape, part(0), part(1), part(2), position_B_, ring_, settings_, output);
    return output;
  }

 private:
  Tensor position_B_;
  KeyValueRing ring_;
  WindowSettings settings_;
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

std::unique_ptr<Branch> attention_branch(const AttentionWeights& weights, std::int64_t heads, const FreshRows& rows,
                                         const WindowSettings& settings) {
  const HeadShape shape(weights.query.weight_OI.size(0), heads);
  return projected_branch(std::make_unique<AttentionCore>(weights, shape, rows, settings), weights.output);
}

std::unique_ptr<ForwardBranch> attention_step_branch(const AttentionWeights& weights, std::int64_t heads,
                                                     const Tensor& position_B, const KeyValueRing& ring,
                                                     const WindowSettings& settings) {
  const HeadShape shape(weights.query.weight_OI.size(0), heads);
  return projected_forward_branch(std::make_unique<AttentionStepCore>(weights, shape, position_B, ring, settings),
                                  weights.output);
}

}  // namespace engram::cuda
