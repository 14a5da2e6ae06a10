#include "memory/fused_block.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/block/elementwise.h"
#include "kernels/block/row_norm.h"
#include "kernels/delta_rule/delta_rule.h"
#include "memory/blocks.h"
#include "memory/cuda_support.h"
#include "memory/weight_stack.h"

namespace engram::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

float* float_data(const Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<float>() : nullptr; }

// Where element `offset` of the tensor stands.
void* at_element(const Tensor& tensor, std::int64_t offset) {
  return static_cast<char*>(tensor.data_ptr()) + offset * static_cast<std::int64_t>(tensor.element_size());
}

// Two kernels that do not depend on each other run at the same time; what follows waits for both.
template <class Side, class Main>
void side_by_side(Side side, Main main) {
  const c10::cuda::CUDAStream main_stream = c10::cuda::getCurrentCUDAStream();
  static const c10::cuda::CUDAStream side_stream = c10::cuda::getStreamFromPool();
  at::cuda::CUDAEvent begin, end;
  begin.record(main_stream);
  begin.block(side_stream);
  side(side_stream.stream());
  end.record(side_stream);
  main(main_stream.stream());
  end.block(main_stream);
}

RowNorm row_norm(const Tensor& x_MP, const Tensor& weight_D) {
  return {.kind = NormKind::kRms,
          .rows = x_MP.size(0),
          .width = static_cast<int>(weight_D.size(0)),
          .stride = static_cast<int>(x_MP.size(1)),
          .epsilon = static_cast<float>(kRmsNormEpsilon),
          .dtype = kernel_dtype(x_MP),
          .x = x_MP.data_ptr(),
          .weight = weight_D.data_ptr<float>(),
          .bias = nullptr};
}

Tensor normalized(const Tensor& x_MP, const Tensor& weight_D) {
  const Tensor y_MP = torch::empty_like(x_MP);
  row_norm_forward(row_norm(x_MP, weight_D), y_MP.data_ptr(), current_stream());
  return y_MP;
}

struct NormGradients {
  Tensor x_MP, weight_D;
};
// residual_MP: added to x's gradient; may be undefined.
NormGradients normalized_backward(const Tensor& x_MP, const Tensor& weight_D, const Tensor& gradient_MP,
                                  const Tensor& residual_MP) {
  const RowNorm norm = row_norm(x_MP, weight_D);
  NormGradients out{torch::empty_like(x_MP), torch::empty_like(weight_D, torch::requires_grad(false))};
  const Tensor scratch = scratch_bytes(row_norm_backward_scratch_bytes(norm), x_MP);
  row_norm_backward(norm,
                    {.y = gradient_MP.data_ptr(),
                     .residual = residual_MP.defined() ? residual_MP.data_ptr() : nullptr,
                     .x = out.x_MP.data_ptr(),
                     .weight = out.weight_D.data_ptr<float>(),
                     .bias = nullptr},
                    scratch.data_ptr(), current_stream());
  return out;
}

// dropout(x) [+ residual] over rows of D of P channels.
Tensor dropped(const Tensor& x_MP, std::int64_t width, const DropoutPlace& dropout, const Tensor& residual_MP) {
  if (!dropout.drops() && !residual_MP.defined()) return x_MP;
  const Tensor y_MP = torch::empty_like(x_MP);
  dropout_add({.rows = x_MP.size(0),
               .width = static_cast<int>(width),
               .stride = static_cast<int>(x_MP.size(1)),
               .dtype = kernel_dtype(x_MP),
               .dropout = dropout,
               .x = x_MP.data_ptr(),
               .residual = residual_MP.defined() ? residual_MP.data_ptr() : nullptr},
              y_MP.data_ptr(), current_stream());
  return y_MP;
}

// One pass through the mixer's half, kept for its backward pass.
class MixerPass : public torch::CustomClassHolder {
 public:
  MixerPass(const Tensor& x_MP, const MixerWeights& weights, const MixerSettings& settings)
      : settings_(settings),
        x_MP_(x_MP),
        norm_D_(weights.norm_D.detach()),
        head_norm_K_(weights.head_norm_K.detach()),
        head_{.rows = x_MP.size(0),
              .heads = settings.heads,
              .width = settings.width / settings.heads,
              .padded = round_up(settings.width / settings.heads, kVectorElements)},
        part_(head_.heads * head_.padded),
        gate_column_(3 * part_),
        beta_column_(gate_column_ + mixer_gate_columns(settings.mix, head_.heads, head_.padded)),
        projected_columns_(round_up(beta_column_ + head_.heads, kVectorElements)),
        input_stack_(projected_columns_, static_cast<int>(x_MP.size(1))),
        output_stack_(static_cast<int>(x_MP.size(1)), part_) {
    const PackGroups by_head{settings.width, head_.width, head_.padded};
    const PackGroups by_row{settings.width, settings.width, static_cast<int>(x_MP.size(1))};
    input_stack_.add(weights.query_DD, 0, by_head, by_row);
    input_stack_.add(weights.key_DD, part_, by_head, by_row);
    input_stack_.add(weights.value_DD, 2 * part_, by_head, by_row);
    input_stack_.add(weights.beta_HD, beta_column_, {head_.heads, head_.heads, head_.heads}, by_row);
    if (settings.mix == MixKind::kVector) input_stack_.add(weights.gate_GD, gate_column_, by_head, by_row);
    if (settings.mix == MixKind::kScalar)
      input_stack_.add(weights.gate_GD, gate_column_, {2 * head_.heads, 2 * head_.heads, 2 * head_.heads}, by_row);
    output_stack_.add(weights.output_DD, 0, by_row, by_head);
  }

  Tensor forward() {
    input_weight_ = input_stack_.packed(x_MP_.scalar_type());
    output_weight_ = output_stack_.packed(x_MP_.scalar_type());
    normed_MP_ = normalized(x_MP_, norm_D_);
    projected_ = product(normed_MP_, input_weight_.t());
    features_ = empty({head_.rows, 3, part_});
    beta_ = empty({head_.rows, head_.heads});
    mixer_features_forward(features(), features_.data_ptr(), beta_.data_ptr(), current_stream());

    fast_ = empty({head_.rows, part_});
    delta_saved_ = scratch_bytes(delta_rule_saved_bytes(delta_shape(), dtype()), x_MP_);
    const auto run_delta_rule = [&](cudaStream_t stream) {
      delta_rule_forward_saving(delta_input(), {fast_.data_ptr(), nullptr}, delta_saved_.data_ptr(), stream);
    };
    if (has_window()) {
      window_ = empty({head_.rows, part_});
      const AttentionInput input = attention_input();
      window_saved_ = scratch_bytes(attention_saved_bytes(input.shape, dtype(), input.dropout.drops()), x_MP_);
      side_by_side(
          [&](cudaStream_t stream) {
            attention_forward(attention_input(), window_.data_ptr(), window_saved_.data_ptr(), stream);
          },
          run_delta_rule);
    } else {
      run_delta_rule(current_stream());
    }

    mixed_ = empty({head_.rows, part_});
    mixer_mix_forward(mix(), mixed_.data_ptr(), current_stream());
    return dropped(product(mixed_, output_weight_.t()), settings_.width, settings_.output_dropout, x_MP_);
  }

  // Gradients of x, norm, query, key, value, beta, gate, head norm, output.
  variable_list backward(const Tensor& gradient_MP) {
    const Tensor d_output_MP = dropped(gradient_MP, settings_.width, settings_.output_dropout, {});
    const Tensor d_output_weight = product_float(d_output_MP.t(), mixed_);
    const Tensor d_mixed = product(d_output_MP, output_weight_);

    const Tensor d_projected = torch::empty_like(projected_), d_fast = torch::empty_like(fast_);
    const Tensor d_window = has_window() ? torch::empty_like(window_) : Tensor();
    const Tensor d_head_norm_K = torch::empty_like(head_norm_K_);
    const Tensor mix_scratch = scratch_bytes(mixer_mix_backward_scratch_bytes(head_), x_MP_);
    mixer_mix_backward(mix(),
                       {.out = d_mixed.data_ptr(),
                        .gate = at_element(d_projected, gate_column_),
                        .fast = d_fast.data_ptr(),
                        .window = has_window() ? d_window.data_ptr() : nullptr,
                        .weight = d_head_norm_K.data_ptr<float>()},
                       mix_scratch.data_ptr(), current_stream());

    const Tensor d_features = torch::empty_like(features_), d_beta = torch::empty_like(beta_);
    const Tensor delta_scratch = scratch_bytes(delta_rule_backward_scratch_bytes(delta_shape(), dtype()), x_MP_);
    const auto run_delta_rule = [&](cudaStream_t stream) {
      delta_rule_backward(delta_input(), delta_saved_.data_ptr(), {d_fast.data_ptr(), nullptr},
                          {.q_BTHD = d_features.data_ptr(),
                           .k_BTHD = at_element(d_features, part_),
                           .v_BTHD = at_element(d_features, 2 * part_),
                           .beta_BTH = d_beta.data_ptr(),
                           .initial_state_BHKV = nullptr},
                          delta_scratch.data_ptr(), stream);
    };
    Tensor d_window_value;
    if (has_window()) {
      d_window_value = torch::empty_like(window_);
      const Tensor window_scratch = scratch_bytes(attention_backward_scratch_bytes(attention_input().shape), x_MP_);
      side_by_side(
          [&](cudaStream_t stream) {
            attention_backward(attention_input(),
                               {window_.data_ptr(), window_saved_.data_ptr(), d_window.data_ptr()},
                               {.head_stride = head_.padded,
                                .q = {d_projected.data_ptr(), projected_columns_},
                                .k = {at_element(d_projected, part_), projected_columns_},
                                .v = {d_window_value.data_ptr(), part_}},
                               window_scratch.data_ptr(), stream);
          },
          run_delta_rule);
    } else {
      run_delta_rule(current_stream());
    }

    mixer_features_backward(features(),
                            {.features = d_features.data_ptr(),
                             .beta = d_beta.data_ptr(),
                             .window_value = has_window() ? d_window_value.data_ptr() : nullptr,
                             .projected = d_projected.data_ptr()},
                            current_stream());
    const Tensor d_input_weight = product_float(d_projected.t(), normed_MP_);
    const NormGradients d_x = normalized_backward(x_MP_, norm_D_, product(d_projected, input_weight_), gradient_MP);
    const std::vector<Tensor> d_inputs = input_stack_.unpacked(d_input_weight);
    return {d_x.x_MP,
            d_x.weight_D,
            d_inputs[0],
            d_inputs[1],
            d_inputs[2],
            d_inputs[3],
            d_inputs.size() > 4 ? d_inputs[4] : Tensor(),
            d_head_norm_K,
            output_stack_.unpacked(d_output_weight)[0]};
  }

 private:
  static constexpr int kVectorElements = 8;

  bool has_window() const { return settings_.mix != MixKind::kFast; }
  Dtype dtype() const { return kernel_dtype(x_MP_); }
  Tensor empty(torch::IntArrayRef shape) const { return torch::empty(shape, x_MP_.options().requires_grad(false)); }

  MixerFeatures features() const {
    return {.shape = head_,
            .dtype = dtype(),
            .projected_stride = projected_columns_,
            .beta_column = beta_column_,
            .beta_factor = settings_.beta_factor,
            .query_dropout = settings_.query_dropout,
            .key_dropout = settings_.key_dropout,
            .value_dropout = settings_.value_dropout,
            .projected = projected_.data_ptr()};
  }
  MixerMix mix() const {
    return {.shape = head_,
            .dtype = dtype(),
            .kind = settings_.mix,
            .projected_stride = projected_columns_,
            .gate = at_element(projected_, gate_column_),
            .fast = fast_.data_ptr(),
            .window = has_window() ? window_.data_ptr() : nullptr,
            .weight = float_data(head_norm_K_),
            .epsilon = static_cast<float>(kRmsNormEpsilon)};
  }
  DeltaRuleShape delta_shape() const {
    return {static_cast<int>(settings_.batch), static_cast<int>(settings_.steps), head_.heads, head_.padded};
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_.width)); }
  DeltaRuleInput delta_input() const {
    return {.shape = delta_shape(),
            .dtype = dtype(),
            .scale = scale(),
            .row_stride = 3 * part_,
            .q_BTHD = features_.data_ptr(),
            .k_BTHD = at_element(features_, part_),
            .v_BTHD = at_element(features_, 2 * part_),
            .beta_BTH = beta_.data_ptr(),
            .length_B = settings_.length_B.data_ptr<int>(),
            .initial_state_BHKV = nullptr};
  }
  AttentionInput attention_input() const {
    return {.shape = {static_cast<int>(settings_.batch), static_cast<int>(settings_.steps), head_.heads, head_.padded},
            .dtype = dtype(),
            .scale = scale(),
            .window = settings_.window,
            .rotary_width = settings_.rotary ? head_.width : 0,
            .head_stride = head_.padded,
            .q = {projected_.data_ptr(), projected_columns_},
            .k = {at_element(projected_, part_), projected_columns_},
            .v = {at_element(features_, 2 * part_), 3 * part_},
            .length_B = settings_.lengths_B.data_ptr<std::int64_t>(),
            .dropout = {},
            .past = {}};
  }

  MixerSettings settings_;
  Tensor x_MP_, norm_D_, head_norm_K_;
  MixerShape head_;
  int part_;  // columns of all heads
  int gate_column_, beta_column_, projected_columns_;
  WeightStack input_stack_, output_stack_;
  Tensor input_weight_, output_weight_;
  Tensor normed_MP_, projected_, features_, beta_;
  Tensor fast_, delta_saved_, window_, window_saved_, mixed_;
};

class MixerFunction : public torch::autograd::Function<MixerFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_MP, const Tensor& norm, const Tensor& query,
                        const Tensor& key, const Tensor& value, const Tensor& beta, const std::optional<Tensor>& gate,
                        const Tensor& head_norm, const Tensor& output, const MixerSettings& settings) {
    auto pass = c10::make_intrusive<MixerPass>(
        x_MP.detach(), MixerWeights{norm, query, key, value, beta, gate.value_or(Tensor()), head_norm, output},
        settings);
    const Tensor y_MP = pass->forward();
    context->saved_data["pass"] = c10::IValue::make_capsule(std::move(pass));
    return y_MP;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const auto holder = context->saved_data["pass"].toCapsule();
    variable_list gradients = static_cast<MixerPass*>(holder.get())->backward(gradient[0].contiguous());
    gradients.emplace_back();  // of the settings
    return gradients;
  }
};

class SwiGluPass : public torch::CustomClassHolder {
 public:
  SwiGluPass(const Tensor& x_MP, const SwiGluWeights& weights, const DropoutPlace& dropout)
      : x_MP_(x_MP),
        norm_D_(weights.norm_D.detach()),
        dropout_(dropout),
        width_(static_cast<int>(norm_D_.size(0))),
        inner_(static_cast<int>(weights.gate_ID.size(0))),
        input_stack_(2 * inner_, static_cast<int>(x_MP.size(1))),
        output_stack_(static_cast<int>(x_MP.size(1)), inner_) {
    const PackGroups inner{inner_, inner_, inner_}, width{width_, width_, static_cast<int>(x_MP.size(1))};
    input_stack_.add(weights.gate_ID, 0, inner, width);
    input_stack_.add(weights.up_ID, inner_, inner, width);
    output_stack_.add(weights.down_DI, 0, width, inner);
  }

  Tensor forward() {
    input_weight_ = input_stack_.packed(x_MP_.scalar_type());
    output_weight_ = output_stack_.packed(x_MP_.scalar_type());
    normed_MP_ = normalized(x_MP_, norm_D_);
    gate_up_ = product(normed_MP_, input_weight_.t());
    hidden_ = torch::empty({x_MP_.size(0), inner_}, gate_up_.options());
    swiglu_forward(x_MP_.size(0), inner_, kernel_dtype(x_MP_), gate_up_.data_ptr(), hidden_.data_ptr(),
                   current_stream());
    return dropped(product(hidden_, output_weight_.t()), width_, dropout_, x_MP_);
  }

  // Gradients of x, norm, gate, up, down.
  variable_list backward(const Tensor& gradient_MP) {
    const Tensor d_output_MP = dropped(gradient_MP, width_, dropout_, {});
    const Tensor d_output_weight = product_float(d_output_MP.t(), hidden_);
    const Tensor d_hidden = product(d_output_MP, output_weight_);
    const Tensor d_gate_up = torch::empty_like(gate_up_);
    swiglu_backward(x_MP_.size(0), inner_, kernel_dtype(x_MP_), gate_up_.data_ptr(), d_hidden.data_ptr(),
                    d_gate_up.data_ptr(), current_stream());
    const Tensor d_input_weight = product_float(d_gate_up.t(), normed_MP_);
    const NormGradients d_x = normalized_backward(x_MP_, norm_D_, product(d_gate_up, input_weight_), gradient_MP);
    const std::vector<Tensor> d_inputs = input_stack_.unpacked(d_input_weight);
    return {d_x.x_MP, d_x.weight_D, d_inputs[0], d_inputs[1], output_stack_.unpacked(d_output_weight)[0]};
  }

 private:
  Tensor x_MP_, norm_D_;
  DropoutPlace dropout_;
  int width_, inner_;
  WeightStack input_stack_, output_stack_;
  Tensor input_weight_, output_weight_;
  Tensor normed_MP_, gate_up_, hidden_;
};

class SwiGluFunction : public torch::autograd::Function<SwiGluFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_MP, const Tensor& norm, const Tensor& gate,
                        const Tensor& up, const Tensor& down, const DropoutPlace& dropout) {
    auto pass = c10::make_intrusive<SwiGluPass>(x_MP.detach(), SwiGluWeights{norm, gate, up, down}, dropout);
    const Tensor y_MP = pass->forward();
    context->saved_data["pass"] = c10::IValue::make_capsule(std::move(pass));
    return y_MP;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const auto holder = context->saved_data["pass"].toCapsule();
    variable_list gradients = static_cast<SwiGluPass*>(holder.get())->backward(gradient[0].contiguous());
    gradients.emplace_back();  // of the dropout
    return gradients;
  }
};

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x_MP, const Tensor& weight_D) {
    context->save_for_backward({x_MP, weight_D});
    return normalized(x_MP.detach(), weight_D.detach());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradient) {
    const variable_list saved = context->get_saved_variables();
    const NormGradients out =
        normalized_backward(saved[0].detach(), saved[1].detach(), gradient[0].contiguous(), Tensor());
    return {out.x_MP, out.weight_D};
  }
};

}  // namespace

Tensor to_rows(const Tensor& x) {
  const std::int64_t width = x.size(-1);
  const std::int64_t missing = (kWidthMultiple - width % kWidthMultiple) % kWidthMultiple;
  const Tensor x_MD = x.reshape({-1, width});
  return missing == 0 ? x_MD.contiguous() : torch::constant_pad_nd(x_MD, {0, missing});
}

Tensor from_rows(const Tensor& x_MP, std::int64_t batch, std::int64_t width) {
  return x_MP.view({batch, -1, x_MP.size(1)}).narrow(2, 0, width);
}

Tensor mixer(const Tensor& x_MP, const MixerWeights& weights, const MixerSettings& settings) {
  TORCH_CHECK(x_MP.size(0) == settings.batch * settings.steps, x_MP.size(0), " rows of ", settings.batch, " x ",
              settings.steps);
  return MixerFunction::apply(x_MP, weights.norm_D, weights.query_DD, weights.key_DD, weights.value_DD, weights.beta_HD,
                              weights.gate_GD.defined() ? std::optional<Tensor>(weights.gate_GD) : std::nullopt,
                              weights.head_norm_K, weights.output_DD, settings);
}

Tensor swiglu(const Tensor& x_MP, const SwiGluWeights& weights, const DropoutPlace& dropout) {
  return SwiGluFunction::apply(x_MP, weights.norm_D, weights.gate_ID, weights.up_ID, weights.down_DI, dropout);
}

Tensor rms_norm(const Tensor& x_MP, const Tensor& weight_D) { return RmsNormFunction::apply(x_MP, weight_D); }

Tensor product(const Tensor& a, const Tensor& b) { return torch::mm(a, b); }

Tensor product_float(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == torch::kFloat32 ? torch::mm(a, b) : torch::mm(a, b, torch::kFloat32);
}

}  // namespace engram::fused
