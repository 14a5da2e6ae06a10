#include "memory/fused/fast_weights_passes.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "memory/ops/fast_weight_ops.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/rows.h"

namespace engram::cuda {
namespace {

namespace passes = fast_weight_passes;
using torch::Tensor;

passes::Map map_of(FeatureMap map) {
  switch (map) {
    case FeatureMap::kSilu:
      return passes::Map::kSilu;
    case FeatureMap::kRelu:
      return passes::Map::kRelu;
    case FeatureMap::kElu:
      return passes::Map::kElu;
    case FeatureMap::kDpfp:
      return passes::Map::kDpfp;
    case FeatureMap::kIdentity:
      return passes::Map::kIdentity;
    case FeatureMap::kFavor:
      return passes::Map::kFavor;
  }
  throw std::logic_error("a feature map without a kernel");
}

passes::FeatureNorm norm_of(KeyNorm norm) {
  switch (norm) {
    case KeyNorm::kL2:
      return passes::FeatureNorm::kLength;
    case KeyNorm::kSum:
      return passes::FeatureNorm::kSum;
    case KeyNorm::kNone:
      break;
  }
  return passes::FeatureNorm::kNone;
}

passes::StrengthKind strength_of(const FastWeightsOptions& options) {
  passes::StrengthKind kind{passes::Write::kOne, passes::LogDecay::kNone, static_cast<float>(options.beta_factor)};
  if (options.write_strength == WriteStrength::kSigmoid) kind.write = passes::Write::kSigmoid;
  if (options.write_strength == WriteStrength::kStep) kind.write = passes::Write::kStep;
  if (options.write_strength == WriteStrength::kExponential) kind.write = passes::Write::kExponential;
  if (options.decay == Decay::kFixed) kind.decay = passes::LogDecay::kFixed;
  if (options.decay == Decay::kScalar) kind.decay = passes::LogDecay::kScalar;
  if (options.rule == FastRule::kGatedSum) kind.decay = passes::LogDecay::kOfWrite;
  return kind;
}

passes::Mix mix_of(Mixing mixing) {
  switch (mixing) {
    case Mixing::kVector:
      return passes::Mix::kVector;
    case Mixing::kScalar:
      return passes::Mix::kScalar;
    case Mixing::kSum:
      return passes::Mix::kSum;
  }
  throw std::logic_error("a mixing without a kernel");
}

passes::AnswerKind answer_of(const FastWeightsSettings& settings, int channels) {
  const FastWeightsOptions& options = settings.options;
  passes::AnswerKind kind{passes::AnswerNorm::kNone, passes::AnswerGate::kNone, channels,
                          static_cast<float>(kRmsNormEpsilon)};
  if (options.attention_norm == AttentionNorm::kSum) kind.norm = passes::AnswerNorm::kSum;
  if (options.attention_norm == AttentionNorm::kAtLeastOne) kind.norm = passes::AnswerNorm::kAtLeastOne;
  if (options.output_gate == OutputGate::kSilu) kind.gate = passes::AnswerGate::kSilu;
  if (options.output_gate == OutputGate::kSigmoid) kind.gate = passes::AnswerGate::kSigmoid;
  if (settings.beside) {
    kind.mix = mix_of(settings.beside->mixing);
    kind.branch_norm = settings.beside->branch_norm;
  }
  return kind;
}

// Channels of a head's features and of its answer, rounded up; the answer has one more where it is divided by a sum.
int padded_features(const FastWeightsOptions& options, int channels) {
  const std::int64_t answer = channels + (options.attention_norm == AttentionNorm::kNone ? 0 : 1);
  return round_up(std::max(options.key_width(), answer), kVectorElements);
}

Tensor plain(const Tensor& parameter) { return parameter.defined() ? parameter.detach().contiguous() : parameter; }

}  // namespace

FastWeightsPasses::FastWeightsPasses(const FastWeightsWeights& weights, const FastWeightsSettings& settings,
                                     std::int64_t batch, std::int64_t steps, Projection& projection)
    : settings_(settings),
      shape_(projection.shape()),
      strength_(strength_of(settings.options)),
      answer_kind_(answer_of(settings, shape_.channels)),
      batch_(batch),
      steps_(steps),
      rows_(batch * steps),
      features_padded_(padded_features(settings.options, shape_.channels)),
      features_part_(shape_.heads * features_padded_),
      bias_H_(plain(weights.decay_bias_H)),
      log_rate_H_(plain(weights.log_rate_H)),
      write_bias_H_(plain(weights.write_bias_H)),
      convolution_CW_(plain(weights.convolution_CW)),
      convolution_bias_C_(plain(weights.convolution_bias_C)),
      skip_H_(plain(weights.skip_H)),
      directions_FC_(plain(weights.directions_FC)),
      head_norm_K_(plain(weights.head_norm_K)) {
  for (const Tensor& weight_DD : {weights.query_DD, weights.key_DD, weights.value_DD})
    projection.add_by_head({weight_DD, {}});
  gate_column_ = projection.columns();
  if (weights.gate_DD.defined()) {
    projection.add_by_head({weights.gate_DD, {}});
    projection.pad();
  }
  mix_column_ = projection.columns();
  if (weights.mix_gate_GD.defined()) {
    if (answer_kind_.mix == passes::Mix::kScalar)
      projection.add(weights.mix_gate_GD);
    else
      projection.add_by_head({weights.mix_gate_GD, {}});
    projection.pad();
  }
  logit_column_ = projection.columns();
  for (const Tensor& weight_HD : {weights.write_HD, weights.decay_HD})
    if (weight_HD.defined()) projection.add(weight_HD);
  projection.pad();
  columns_ = projection.columns();
}

void FastWeightsPasses::features_forward(const Tensor& projected_MC) {
  TORCH_CHECK(projected_MC.size(0) == rows_, projected_MC.size(0), " rows of ", batch_, " x ", steps_);
  projected_ = projected_MC;
  features_ = empty({rows_, 3, features_part_});
  if (has_window() && convolution_CW_.defined()) window_rows_ = empty({rows_, 2 * shape_.part});
  write_ = empty({rows_, shape_.heads});
  const auto of_float = projected_.options().dtype(torch::kFloat32);
  if (passes::gives_log_decay(strength_)) log_decay_ = torch::empty({rows_, shape_.heads}, of_float);
  if (strength_.write == passes::Write::kExponential) one_ = torch::empty({rows_, shape_.heads}, of_float);
  passes::features_forward(features(), features_.data_ptr(), current_stream());
}

void FastWeightsPasses::strengths_forward() {
  passes::strengths_forward(strengths(), write_.data_ptr(), float_data(log_decay_), float_data(one_), current_stream());
}

Tensor FastWeightsPasses::answer_forward(const Tensor& answer_of_memory, const Tensor& window) {
  answer_ = answer_of_memory;
  window_ = window;
  const Tensor mixed = empty({rows_, shape_.part});
  passes::answer_forward(answer(), mixed.data_ptr(), current_stream());
  return mixed;
}

float FastWeightsPasses::scale() const {
  return static_cast<float>(read_scale(settings_.options.attention_norm, settings_.options.key_width()));
}

Tensor FastWeightsPasses::values_of_window() const {
  const Tensor values_MHX = features_.select(1, 2).unflatten(1, {shape_.heads, features_padded_});
  const bool ends_with_one = answer_kind_.norm != passes::AnswerNorm::kNone;
  if (features_padded_ == shape_.padded && !ends_with_one) return values_MHX.flatten(1);
  const std::int64_t behind = shape_.padded - shape_.channels;
  return torch::constant_pad_nd(values_MHX.narrow(2, 0, shape_.channels), {0, behind}).flatten(1);
}

passes::Features FastWeightsPasses::features() const {
  const FastWeightsOptions& options = settings_.options;
  const auto of_keys = [&](const DropoutKey& dropout) {
    return passes::FeaturePart{.map = map_of(options.feature_map),
                               .norm = norm_of(options.key_norm),
                               .dropout = dropout,
                               .channels = shape_.channels,
                               .features = static_cast<int>(options.key_width()),
                               .nu = options.dpfp_nu,
                               .ends_with_one = false,
                               .drops_first = has_window()};
  };
  const passes::FeaturePart of_values{.map = options.value_silu ? passes::Map::kSilu : passes::Map::kIdentity,
                                      .norm = passes::FeatureNorm::kNone,
                                      .dropout = settings_.value_dropout,
                                      .channels = shape_.channels,
                                      .features = shape_.channels,
                                      .nu = 0,
                                      .ends_with_one = answer_kind_.norm != passes::AnswerNorm::kNone};
  return {.shape = {.batch = static_cast<int>(batch_),
                    .steps = static_cast<int>(steps_),
                    .heads = shape_.heads,
                    .padded = shape_.padded,
                    .features_padded = features_padded_,
                    .projected_stride = columns_},
          .dtype = dtype(),
          .part = {of_keys(settings_.query_dropout), of_keys(settings_.key_dropout), of_values},
          .projected = projected_.data_ptr(),
          .convolution = float_data(convolution_CW_),
          .bias = float_data(convolution_bias_C_),
          .directions = float_data(directions_FC_),
          .window_rows = window_rows_.defined() ? window_rows_.data_ptr() : nullptr};
}

passes::Strengths FastWeightsPasses::strengths() const {
  return {.kind = strength_,
          .rows = rows_,
          .steps = static_cast<int>(steps_),
          .heads = shape_.heads,
          .dtype = dtype(),
          .projected_stride = columns_,
          .logits = at_element(projected_, logit_column_),
          .bias_H = float_data(bias_H_),
          .log_rate_H = float_data(log_rate_H_),
          .write_bias_H = float_data(write_bias_H_)};
}

passes::Answer FastWeightsPasses::answer() const {
  return {.kind = answer_kind_,
          .rows = rows_,
          .heads = shape_.heads,
          .padded = shape_.padded,
          .features_padded = features_padded_,
          .dtype = dtype(),
          .projected_stride = columns_,
          .gate = gate_column_ == mix_column_ ? nullptr : at_element(projected_, gate_column_),
          .mix_gate = mix_column_ == logit_column_ ? nullptr : at_element(projected_, mix_column_),
          .answer = answer_.data_ptr(),
          .weight = float_data(head_norm_K_),
          .one = float_data(one_),
          .skip_H = float_data(skip_H_),
          .skip_scale = scale(),
          .values = at_element(features_, 2 * features_part_),
          .values_stride = 3 * features_part_,
          .window = window_.defined() ? window_.data_ptr() : nullptr};
}

}  // namespace engram::cuda
