#include "memory/fused/mixer.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/block/elementwise.h"
#include "kernels/block/mixer.h"
#include "kernels/fast_weights/delayed_memory/delayed_memory.h"
#include "kernels/fast_weights/delta_rule/delta_rule.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/packed_weights.h"
#include "nn/fused/residual_blocks.h"
#include "nn/fused/rows.h"
#include "nn/fused/side_work.h"

namespace engram::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Query, key, value, beta, [gate,] head norm, output.
std::vector<Tensor> list_of(const MixerWeights& weights) {
  std::vector<Tensor> list{weights.query_DD, weights.key_DD, weights.value_DD, weights.beta_HD};
  if (weights.gate_GD.defined()) list.push_back(weights.gate_GD);
  list.insert(list.end(), {weights.head_norm_K, weights.output_DD});
  return list;
}

MixKind mix_kind(const std::optional<Mixing>& mixing) {
  if (!mixing) return MixKind::kFast;
  switch (*mixing) {
    case Mixing::kVector:
      return MixKind::kVector;
    case Mixing::kScalar:
      return MixKind::kScalar;
    case Mixing::kSum:
      return MixKind::kSum;
  }
  throw std::logic_error("a mixing without a kernel");
}

// What comes before the memories of a mixer and after them.
class MixerPasses {
 protected:
  MixerPasses(const MixerWeights& weights, const MixerSettings& settings)
      : settings_(settings),
        mix_(mix_kind(settings.mixing)),
        head_norm_K_(weights.head_norm_K.detach()),
        head_{.rows = settings.batch * settings.steps,
              .heads = settings.heads,
              .width = settings.width / settings.heads,
              .padded = round_up(settings.width / settings.heads, kVectorElements)},
        part_(head_.heads * head_.padded),
        gate_column_(3 * part_),
        beta_column_(gate_column_ + mixer_gate_columns(mix_, head_.heads, head_.padded)),
        projected_columns_(round_up(beta_column_ + head_.heads, kVectorElements)),
        input_packed_(projected_columns_, padded_width()),
        output_packed_(padded_width(), part_) {
    const PackGroups by_head{settings.width, head_.width, head_.padded};
    const PackGroups by_row = padded_to(settings.width, padded_width());
    input_packed_.add(weights.query_DD, 0, by_head, by_row);
    input_packed_.add(weights.key_DD, part_, by_head, by_row);
    input_packed_.add(weights.value_DD, 2 * part_, by_head, by_row);
    input_packed_.add(weights.beta_HD, beta_column_, padded_to(head_.heads, head_.heads), by_row);
    if (mix_ == MixKind::kVector) input_packed_.add(weights.gate_GD, gate_column_, by_head, by_row);
    if (mix_ == MixKind::kScalar)
      input_packed_.add(weights.gate_GD, gate_column_, padded_to(2 * head_.heads, 2 * head_.heads), by_row);
    output_packed_.add(weights.output_DD, 0, by_row, by_head);
  }

  void pack(WeightPacking& packing) {
    input_weight_ = packing.add(input_packed_);
    output_weight_ = packing.add(output_packed_);
  }

  // Projections and features.
  void project(const Tensor& normed_MP) {
    TORCH_CHECK(normed_MP.size(0) == head_.rows, normed_MP.size(0), " rows of ", settings_.batch, " x ",
                settings_.steps);
    normed_MP_ = normed_MP;
    projected_ = product(normed_MP_, input_weight_.t());
    features_ = empty({head_.rows, 3, part_});
    beta_ = empty({head_.rows, head_.heads});
    mixer_features_forward(features(), features_.data_ptr(), beta_.data_ptr(), current_stream());
  }
  // From what the memories answered.
  Tensor mixed_output() {
    mixed_ = empty({head_.rows, part_});
    mixer_mix_forward(mix(), mixed_.data_ptr(), current_stream());
    return product(mixed_, output_weight_.t());
  }

  int padded_width() const { return round_up(settings_.width, kWidthMultiple); }
  bool has_window() const { return mix_ != MixKind::kFast; }
  Dtype dtype() const { return kernel_dtype(normed_MP_); }
  Tensor empty(torch::IntArrayRef shape) const { return torch::empty(shape, normed_MP_.options()); }

  MixerFeatures features() const {
    return {.shape = head_,
            .dtype = dtype(),
            .projected_stride = projected_columns_,
            .beta_column = beta_column_,
            .beta_factor = settings_.beta_factor,
            .query_dropout = settings_.query_dropout,
            .key_dropout = settings_.key_dropout,
            .value_dropout = settings_.value_dropout,
            .window = has_window(),
            .projected = projected_.data_ptr()};
  }
  MixerMix mix() const {
    return {.shape = head_,
            .dtype = dtype(),
            .kind = mix_,
            .branch_norm = settings_.branch_norm,
            .projected_stride = projected_columns_,
            .gate = at_element(projected_, gate_column_),
            .fast = fast_.data_ptr(),
            .window = has_window() ? window_.data_ptr() : nullptr,
            .weight = float_data(head_norm_K_),
            .epsilon = static_cast<float>(kRmsNormEpsilon)};
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_.width)); }

  MixerSettings settings_;
  MixKind mix_;
  Tensor head_norm_K_;
  MixerShape head_;
  int part_;  // columns of all heads
  int gate_column_, beta_column_, projected_columns_;
  PackedWeights input_packed_, output_packed_;
  Tensor input_weight_, output_weight_;
  Tensor normed_MP_, projected_, features_, beta_;
  Tensor fast_, window_, mixed_;
};

class MixerBranch : public Branch, private MixerPasses {
 public:
  MixerBranch(const MixerWeights& weights, const MixerSettings& settings)
      : Branch(list_of(weights)), MixerPasses(weights, settings) {}

  void pack_weights(WeightPacking& packing) override { pack(packing); }

  Tensor forward(const Tensor& normed_MP) override {
    project(normed_MP);
    fast_ = empty({head_.rows, part_});
    delta_saved_ = scratch_bytes(delta_rule_saved_bytes(delta_shape(), dtype()), normed_MP_);
    const auto run_delta_rule = [&] {
      delta_rule_forward(delta_input(), fast_.data_ptr(), delta_saved_.data_ptr(), current_stream());
    };
    if (has_window()) {
      window_ = empty({head_.rows, part_});
      const AttentionInput input = attention_input();
      window_saved_ = scratch_bytes(attention_saved_bytes(input.shape, dtype(), input.dropout.drops()), normed_MP_);
      const SideWork delta_rule(SideStreamOf::kDeltaRule);
      delta_rule.run(run_delta_rule);
      attention_forward(input, window_.data_ptr(), window_saved_.data_ptr(), current_stream());
      delta_rule.join();
    } else {
      run_delta_rule();
    }
    return mixed_output();
  }

  Gradients backward(const Tensor& d_output_MP, SideWork& side) override {
    Tensor d_output_weight, d_input_weight;
    side.run([&] { d_output_weight = weight_gradient(d_output_MP, mixed_); });
    const Tensor d_mixed = product(d_output_MP, output_weight_);

    const Tensor d_projected = torch::empty_like(projected_), d_fast = torch::empty_like(fast_);
    const Tensor d_window = has_window() ? torch::empty_like(window_) : Tensor();
    const Tensor d_head_norm_K = torch::empty_like(head_norm_K_);
    const Tensor mix_scratch = scratch_bytes(mixer_mix_backward_scratch_bytes(head_), mixed_);
    mixer_mix_backward(mix(),
                       {.out = d_mixed.data_ptr(),
                        .gate = at_element(d_projected, gate_column_),
                        .fast = d_fast.data_ptr(),
                        .window = has_window() ? d_window.data_ptr() : nullptr},
                       mix_scratch.data_ptr(), current_stream());
    side.add(mixer_mix_sum(head_, mix_scratch.data_ptr(), d_head_norm_K.data_ptr<float>()), mix_scratch);

    const Tensor d_features = torch::empty_like(features_), d_beta = torch::empty_like(beta_);
    const Tensor delta_scratch = scratch_bytes(delta_rule_backward_scratch_bytes(delta_shape(), dtype()), mixed_);
    const auto run_delta_rule = [&] {
      delta_rule_backward(delta_input(), delta_saved_.data_ptr(), d_fast.data_ptr(),
                          {.q_BTHD = d_features.data_ptr(),
                           .k_BTHD = at_element(d_features, part_),
                           .v_BTHD = at_element(d_features, 2 * part_),
                           .beta_BTH = d_beta.data_ptr()},
                          delta_scratch.data_ptr(), current_stream());
    };
    Tensor d_window_value;
    if (has_window()) {
      d_window_value = torch::empty_like(window_);
      const Tensor window_scratch = scratch_bytes(attention_backward_scratch_bytes(attention_input().shape), mixed_);
      const SideWork delta_rule(SideStreamOf::kDeltaRule);
      delta_rule.run(run_delta_rule);
      attention_backward(attention_input(), {window_.data_ptr(), window_saved_.data_ptr(), d_window.data_ptr()},
                         {.head_stride = head_.padded,
                          .q = {d_projected.data_ptr(), projected_columns_},
                          .k = {at_element(d_projected, part_), projected_columns_},
                          .v = {d_window_value.data_ptr(), part_}},
                         window_scratch.data_ptr(), current_stream());
      delta_rule.join();
    } else {
      run_delta_rule();
    }

    mixer_features_backward(features(),
                            {.features = d_features.data_ptr(),
                             .beta = d_beta.data_ptr(),
                             .window_value = has_window() ? d_window_value.data_ptr() : nullptr,
                             .projected = d_projected.data_ptr()},
                            current_stream());
    side.run([&] { d_input_weight = weight_gradient(d_projected, normed_MP_); });
    side.keep({d_output_MP, d_projected});
    Gradients gradients{product(d_projected, input_weight_), input_packed_.gradients(d_input_weight, side)};
    gradients.parameters.insert(gradients.parameters.end(),
                                {d_head_norm_K, output_packed_.gradients(d_output_weight, side)[0]});
    return gradients;
  }

 private:
  DeltaRuleShape delta_shape() const {
    return {static_cast<int>(settings_.batch), static_cast<int>(settings_.steps), head_.heads, head_.padded};
  }
  DeltaRuleInput delta_input() const {
    return {.shape = delta_shape(),
            .dtype = dtype(),
            .scale = scale(),
            .row_stride = 3 * part_,
            .q_BTHD = features_.data_ptr(),
            .k_BTHD = at_element(features_, part_),
            .v_BTHD = at_element(features_, 2 * part_),
            .beta_BTH = beta_.data_ptr(),
            .length_B = settings_.length_B.data_ptr<int>()};
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
            .dropout = {}};
  }

  Tensor delta_saved_, window_saved_;
};

// Of a delayed HQLT, for acting.
class DelayedStepBranch : public ForwardBranch, private MixerPasses {
 public:
  DelayedStepBranch(const MixerWeights& weights, const MixerSettings& settings, const DelayedStepState& state)
      : MixerPasses(weights, settings), state_(state) {
    for (const Tensor& tensor : {state.fast_BHKV, state.key_BSHK, state.value_BSHV})
      TORCH_CHECK(tensor.is_contiguous(), "a tensor of memory is not contiguous");
    TORCH_CHECK(!state.chunk || state.beta_BSH1.is_contiguous(), "the write strengths of a chunk are not contiguous");
  }

  void pack_weights(WeightPacking& packing) override { pack(packing); }

  // A stream's fast weights take what attention is about to overwrite, a chunk's what it has just completed.
  Tensor forward(const Tensor& normed_MP) override {
    project(normed_MP);
    fast_ = empty({head_.rows, part_});
    window_ = empty({head_.rows, part_});
    if (state_.chunk) attend();
    remember();
    if (!state_.chunk) attend();
    return mixed_output();
  }

 private:
  void attend() {
    attention_step({.rows = static_cast<int>(head_.rows),
                    .heads = head_.heads,
                    .width = head_.width,
                    .dtype = dtype(),
                    .scale = scale(),
                    .rotary_width = rotary_width(),
                    .head_stride = head_.padded,
                    .q = {projected_.data_ptr(), projected_columns_},
                    .k = {at_element(projected_, part_), projected_columns_},
                    .v = {at_element(features_, 2 * part_), 3 * part_},
                    .position_N = state_.position_B.data_ptr<std::int64_t>(),
                    .ring = {.dtype = Dtype::kFloat32,
                             .slots = settings_.window,
                             .key_BSHW = state_.key_BSHK.data_ptr<float>(),
                             .value_BSHW = state_.value_BSHV.data_ptr<float>()},
                    .chunked = state_.chunk,
                    .output_width = head_.padded,
                    .output_NHP = window_.data_ptr(),
                    .dropout = {}},
                   current_stream());
  }
  void remember() {
    delayed_memory_step({.delay = state_.chunk ? Delay::kChunk : Delay::kStream,
                         .rows = static_cast<int>(head_.rows),
                         .heads = head_.heads,
                         .width = head_.width,
                         .output_width = head_.padded,
                         .slots = settings_.window,
                         .dtype = dtype(),
                         .scale = scale(),
                         .rotary_width = rotary_width(),
                         .q_row_stride = 3 * part_,
                         .q_head_stride = head_.padded,
                         .q = features_.data_ptr(),
                         .beta_NH = beta_.data_ptr(),
                         .position_N = state_.position_B.data_ptr<std::int64_t>(),
                         .key_ring_NSHW = state_.key_BSHK.data_ptr<float>(),
                         .value_ring_NSHW = state_.value_BSHV.data_ptr<float>(),
                         .beta_ring_NSH = state_.chunk ? state_.beta_BSH1.data_ptr<float>() : nullptr,
                         .fast_NHWW = state_.fast_BHKV.data_ptr<float>(),
                         .output_NHP = fast_.data_ptr()},
                        current_stream());
  }
  int rotary_width() const { return settings_.rotary ? head_.width : 0; }

  DelayedStepState state_;
};

}  // namespace

std::unique_ptr<Branch> mixer_branch(const MixerWeights& weights, const MixerSettings& settings) {
  return std::make_unique<MixerBranch>(weights, settings);
}

Support delayed_step_support(std::int64_t width, std::int64_t heads, torch::ScalarType dtype, torch::Device device) {
  if (Support own = block_support(width, heads, dtype, device); !own) return own;
  if (width / heads % 2 == 0) return {};
  return Support::no("width / heads " + std::to_string(width / heads) + " is not even");
}

std::unique_ptr<ForwardBranch> delayed_step_branch(const MixerWeights& weights, const MixerSettings& settings,
                                                   const DelayedStepState& state) {
  return std::make_unique<DelayedStepBranch>(weights, settings, state);
}

}  // namespace engram::fused
