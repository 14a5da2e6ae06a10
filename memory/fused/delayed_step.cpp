#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/fast_weights/delayed_memory/delayed_memory.h"
#include "memory/fused/fast_weights.h"
#include "memory/fused/fast_weights_passes.h"
#include "memory/fused/projected_branch.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/rows.h"

namespace engram::cuda {
namespace {

using torch::Tensor;

class DelayedStepCore : public ForwardCore, private FastWeightsPasses {
 public:
  DelayedStepCore(const FastWeightsWeights& weights, const FastWeightsSettings& settings, const HeadShape& shape,
                  const DelayedStepState& state)
      : ForwardCore(shape),
        FastWeightsPasses(weights, settings, state.position_B.size(0), /*steps=*/1, projection_),
        beside_(settings.beside.value()),
        delay_(beside_.delay.value()),
        state_(state) {
    for (const Tensor& tensor : {state.fast_BHKV, state.key_BSHK, state.value_BSHV})
      TORCH_CHECK(tensor.is_contiguous(), "a tensor of memory is not contiguous");
    TORCH_CHECK(delay_ == Delay::kStream || state.beta_BSH1.is_contiguous(),
                "the write strengths of a chunk are not contiguous");
  }

  // A stream's fast weights take what attention is about to overwrite, a chunk's what it has just completed.
  Tensor forward(const Tensor& projected_MC) override {
    features_forward(projected_MC);
    strengths_forward();
    const Tensor fast = empty({rows_, shape_.part}), window = empty({rows_, shape_.part});
    if (delay_ == Delay::kChunk) attend(window);
    remember(fast);
    if (delay_ == Delay::kStream) attend(window);
    return answer_forward(fast, window);
  }

 private:
  void attend(const Tensor& window) {
    engram::attention_step({.rows = static_cast<int>(rows_),
                            .heads = shape_.heads,
                            .width = shape_.channels,
                            .dtype = dtype(),
                            .scale = 1.0f / std::sqrt(static_cast<float>(shape_.channels)),
                            .rotary_width = rotary_width(),
                            .head_stride = shape_.padded,
                            .q = {projected_.data_ptr(), columns_},
                            .k = {at_element(projected_, shape_.part), columns_},
                            .v = {at_element(features_, 2 * features_part_), 3 * features_part_},
                            .position_N = state_.position_B.data_ptr<std::int64_t>(),
                            .ring = {.dtype = Dtype::kFloat32,
                                     .slots = beside_.window,
                                     .key_BSHW = state_.key_BSHK.data_ptr<float>(),
                                     .value_BSHW = state_.value_BSHV.data_ptr<float>()},
                            .chunked = delay_ == Delay::kChunk,
                            .output_width = shape_.padded,
                            .output_NHP = window.data_ptr(),
                            .dropout = {}},
                           current_stream());
  }
  void remember(const Tensor& fast) {
    delayed_memory_step({.delay = delay_,
                         .rows = static_cast<int>(rows_),
                         .heads = shape_.heads,
                         .width = shape_.channels,
                         .output_width = shape_.padded,
                         .slots = beside_.window,
                         .dtype = dtype(),
                         .scale = scale(),
                         .rotary_width = rotary_width(),
                         .q_row_stride = 3 * features_part_,
                         .q_head_stride = features_padded_,
                         .q = features_.data_ptr(),
                         .beta_NH = write_.data_ptr(),
                         .position_N = state_.position_B.data_ptr<std::int64_t>(),
                         .key_ring_NSHW = state_.key_BSHK.data_ptr<float>(),
                         .value_ring_NSHW = state_.value_BSHV.data_ptr<float>(),
                         .beta_ring_NSH = delay_ == Delay::kChunk ? state_.beta_BSH1.data_ptr<float>() : nullptr,
                         .fast_NHWW = state_.fast_BHKV.data_ptr<float>(),
                         .output_NHP = fast.data_ptr()},
                        current_stream());
  }
  int rotary_width() const { return beside_.rotary ? shape_.channels : 0; }

  BesideWindow beside_;
  Delay delay_;
  DelayedStepState state_;
};

}  // namespace

Support supports_delayed_step(std::int64_t width, std::int64_t heads, torch::ScalarType dtype, torch::Device device) {
  if (Support own = supports_block(width, heads, dtype, device); !own) return own;
  if (width / heads % 2 == 0) return {};
  return Support::no("width / heads " + std::to_string(width / heads) + " is not even");
}

std::unique_ptr<ForwardBranch> delayed_step_branch(const FastWeightsWeights& weights,
                                                   const FastWeightsSettings& settings, const DelayedStepState& state) {
  const HeadShape shape(settings.options.width, settings.options.heads);
  return projected_forward_branch(std::make_unique<DelayedStepCore>(weights, settings, shape, state),
                                  {weights.output_DD, {}});
}

}  // namespace engram::cuda
