#include <cstdint>
#include <memory>
#include <string>

#include "kernels/fast_weights/delayed_memory/delayed_memory.h"
#include "kernels/fast_weights/delta_rule/step.h"
#include "memory/fused/fast_weights.h"
#include "memory/fused/fast_weights_passes.h"
#include "memory/fused/projected_branch.h"
#include "memory/fused/window_attention.h"
#include "memory/ops/fast_weight_ops.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/rows.h"

namespace engram::cuda {
namespace {

using torch::Tensor;

class FastWeightsStepCore : public ForwardCore, private FastWeightsPasses {
 public:
  FastWeightsStepCore(const FastWeightsWeights& weights, const FastWeightsSettings& settings, const HeadShape& shape,
                      const FastWeightsStepState& state)
      : ForwardCore(shape),
        FastWeightsPasses(weights, settings, state.fast_BHKV.size(0), /*steps=*/1, projection_),
        state_(state) {
    for (const Tensor& tensor : {state.fast_BHKV, state.key_sum_BHK, state.key_BSHK, state.value_BSHV, state.beta_BSH1})
      TORCH_CHECK(!tensor.defined() || tensor.is_contiguous(), "a tensor of memory is not contiguous");
  }

  // A delayed stream's fast weights take what attention is about to overwrite, a chunk's what it has just completed.
  Tensor forward(const Tensor& projected_MC) override {
    features_forward(projected_MC);
    strengths_forward();
    const Tensor fast = empty({rows_, features_part_}), window = has_window() ? empty({rows_, shape_.part}) : Tensor();
    const bool attends_last = has_window() && settings_.beside->delay == Delay::kStream;
    if (has_window() && !attends_last) attend(window);
    remember(fast);
    if (attends_last) attend(window);
    return answer_forward(fast, window);
  }

 private:
  void attend(const Tensor& window) {
    const Tensor values = values_of_window();
    attention_step_of_rows(shape_, {projected_.data_ptr(), columns_}, {at_element(projected_, shape_.part), columns_},
                           {values.data_ptr(), values.stride(0)}, state_.position_B,
                           {state_.key_BSHK, state_.value_BSHV}, window_settings(*settings_.beside), window);
  }

  void remember(const Tensor& fast) {
    if (has_window() && settings_.beside->delay)
      remember_delayed(fast);
    else
      remember_at_once(fast);
  }
  void remember_at_once(const Tensor& fast) {
    delta_rule_step(
        {.rows = static_cast<int>(rows_),
         .heads = shape_.heads,
         .width = shape_.channels,
         .dtype = dtype(),
         .scale = scale(),
         .q_NHD = features_.data_ptr(),
         .k_NHD = at_element(features_, features_part_),
         .v_NHD = at_element(features_, 2 * features_part_),
         .beta_NH = write_.data_ptr(),
         .state_NHKV = state_.fast_BHKV.data_ptr<float>(),
         .output_NHD = fast.data_ptr(),
         .write = settings_.options.rule == FastRule::kDelta ? FastWeightWrite::kDelta : FastWeightWrite::kSum,
         .log_decay_NH = float_data(log_decay_)},
        {.row_stride = 3 * features_part_,
         .head_stride = features_padded_,
         .output_width = features_padded_,
         .key_sum_NHK = float_data(state_.key_sum_BHK)},
        current_stream());
  }
  void remember_delayed(const Tensor& fast) {
    const BesideWindow& beside = *settings_.beside;
    delayed_memory_step({.delay = *beside.delay,
                         .rows = static_cast<int>(rows_),
                         .heads = shape_.heads,
                         .width = shape_.channels,
                         .output_width = features_padded_,
                         .slots = beside.window,
                         .dtype = dtype(),
                         .scale = scale(),
                         .rotary_width = beside.rotary ? shape_.channels : 0,
                         .q_row_stride = 3 * features_part_,
                         .q_head_stride = features_padded_,
                         .q = features_.data_ptr(),
                         .beta_NH = write_.data_ptr(),
                         .position_N = state_.position_B.data_ptr<std::int64_t>(),
                         .key_ring_NSHW = state_.key_BSHK.data_ptr<float>(),
                         .value_ring_NSHW = state_.value_BSHV.data_ptr<float>(),
                         .beta_ring_NSH = float_data(state_.beta_BSH1),
                         .fast_NHWW = state_.fast_BHKV.data_ptr<float>(),
                         .output_NHP = fast.data_ptr()},
                        current_stream());
  }

  FastWeightsStepState state_;
};

}  // namespace

Support supports_fast_weights_step(const FastWeightsOptions& options, torch::ScalarType dtype, torch::Device device) {
  if (Support own = supports_step_of_heads(options.width, options.heads, dtype, device); !own) return own;
  const std::int64_t channels = options.width / options.heads, key_width = options.key_width();
  const bool by_channel = options.decays_by_channel();
  const FastWeightRule rule{options.rule == FastRule::kDelta, options.attention_norm,
                            options.write_strength == WriteStrength::kExponential};
  if (Support own = supports_fast_weights(rule, by_channel ? key_width : 1, key_width, channels); !own) return own;
  if (by_channel) return Support::no("its step has a decay per key channel");
  if (options.write_strength == WriteStrength::kExponential)
    return Support::no("its step's write strengths have no bound");
  if (options.convolution) return Support::no("its step has a convolution");
  if (options.householder_steps > 1) return Support::no("its step writes several times");
  if (key_width != channels)
    return Support::no("a head has keys of " + std::to_string(key_width) + " channels beside values of " +
                       std::to_string(channels));
  return {};
}

std::unique_ptr<ForwardBranch> fast_weights_step_branch(const FastWeightsWeights& weights,
                                                        const FastWeightsSettings& settings,
                                                        const FastWeightsStepState& state) {
  const HeadShape shape(settings.options.width, settings.options.heads);
  return projected_forward_branch(std::make_unique<FastWeightsStepCore>(weights, settings, shape, state),
                                  {weights.output_DD, {}});
}

}  // namespace engram::cuda
