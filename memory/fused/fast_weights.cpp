#include "memory/fused/fast_weights.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/fast_weights/delta_rule/delta_rule.h"
#include "kernels/fast_weights/passes/passes.h"
#include "memory/ops/fast_weight_ops.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/packed_weights.h"
#include "nn/fused/rows.h"
#include "nn/fused/side_work.h"

namespace engram::fused {
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

passes::AnswerKind answer_of(const FastWeightsOptions& options) {
  passes::AnswerKind kind{passes::AnswerNorm::kNone, passes::AnswerGate::kNone, options.width / options.heads,
                          static_cast<float>(kRmsNormEpsilon)};
  if (options.attention_norm == AttentionNorm::kSum) kind.norm = passes::AnswerNorm::kSum;
  if (options.attention_norm == AttentionNorm::kAtLeastOne) kind.norm = passes::AnswerNorm::kAtLeastOne;
  if (options.output_gate == OutputGate::kSilu) kind.gate = passes::AnswerGate::kSilu;
  if (options.output_gate == OutputGate::kSigmoid) kind.gate = passes::AnswerGate::kSigmoid;
  return kind;
}

// Those that there are, in the order of the gradients.
std::vector<Tensor> list_of(const FastWeightsWeights& weights) {
  std::vector<Tensor> list;
  for (const Tensor& weight :
       {weights.query_DD, weights.key_DD, weights.value_DD, weights.gate_DD, weights.write_HD, weights.decay_HD,
        weights.decay_bias_H, weights.log_rate_H, weights.write_bias_H, weights.convolution_CW,
        weights.convolution_bias_C, weights.skip_H, weights.head_norm_K, weights.output_DD})
    if (weight.defined()) list.push_back(weight);
  return list;
}

Tensor plain(const Tensor& parameter) { return parameter.defined() ? parameter.detach().contiguous() : parameter; }

class FastWeightsBranch : public Branch {
 public:
  FastWeightsBranch(const FastWeightsWeights& weights, const FastWeightsSettings& settings)
      : Branch(list_of(weights)),
        settings_(settings),
        strength_(strength_of(settings.options)),
        answer_kind_(answer_of(settings.options)),
        rows_(settings.batch * settings.steps),
        heads_(settings.options.heads),
        channels_(settings.options.width / settings.options.heads),
        padded_(round_up(channels_, kVectorElements)),
        features_padded_(round_up(
            std::max<std::int64_t>(settings.options.key_width(),
                                   channels_ + (settings.options.attention_norm == AttentionNorm::kNone ? 0 : 1)),
            kVectorElements)),
        part_(heads_ * padded_),
        features_part_(heads_ * features_padded_),
        gate_column_(3 * part_),
        logit_column_(gate_column_ + (weights.gate_DD.defined() ? part_ : 0)),
        projected_columns_(logit_column_ + passes::logit_columns(strength_, heads_)),
        bias_H_(plain(weights.decay_bias_H)),
        log_rate_H_(plain(weights.log_rate_H)),
        write_bias_H_(plain(weights.write_bias_H)),
        convolution_CW_(plain(weights.convolution_CW)),
        convolution_bias_C_(plain(weights.convolution_bias_C)),
        skip_H_(plain(weights.skip_H)),
        directions_FC_(plain(weights.directions_FC)),
        head_norm_K_(plain(weights.head_norm_K)),
        input_packed_(projected_columns_, padded_width()),
        output_packed_(padded_width(), part_) {
    const PackGroups by_head{settings.options.width, channels_, padded_};
    const PackGroups by_row = padded_to(settings.options.width, padded_width()), logits = padded_to(heads_, heads_);
    input_packed_.add(weights.query_DD, 0, by_head, by_row);
    input_packed_.add(weights.key_DD, part_, by_head, by_row);
    input_packed_.add(weights.value_DD, 2 * part_, by_head, by_row);
    if (weights.gate_DD.defined()) input_packed_.add(weights.gate_DD, gate_column_, by_head, by_row);
    int next = logit_column_;
    for (const Tensor& weight_HD : {weights.write_HD, weights.decay_HD})
      if (weight_HD.defined()) input_packed_.add(weight_HD, std::exchange(next, next + heads_), logits, by_row);
    output_packed_.add(weights.output_DD, 0, by_row, by_head);
  }

  void pack_weights(WeightPacking& packing) override {
    input_weight_ = packing.add(input_packed_);
    output_weight_ = packing.add(output_packed_);
  }

  Tensor forward(const Tensor& normed_MP) override {
    TORCH_CHECK(normed_MP.size(0) == rows_, normed_MP.size(0), " rows of ", settings_.batch, " x ", settings_.steps);
    normed_MP_ = normed_MP;
    projected_ = product(normed_MP_, input_weight_.t());
    features_ = empty({rows_, 3, features_part_});
    write_ = empty({rows_, heads_});
    const auto of_float = normed_MP_.options().dtype(torch::kFloat32);
    if (passes::gives_log_decay(strength_)) log_decay_ = torch::empty({rows_, heads_}, of_float);
    if (strength_.write == passes::Write::kExponential) one_ = torch::empty({rows_, heads_}, of_float);
    passes::strengths_forward(strengths(), write_.data_ptr(), float_data(log_decay_), float_data(one_),
                              current_stream());
    passes::features_forward(features(), features_.data_ptr(), current_stream());
    answer_ = empty({rows_, features_part_});
    saved_ = scratch_bytes(delta_rule_saved_bytes(memory_shape(), dtype()), normed_MP_);
    delta_rule_forward(memory_input(), answer_.data_ptr(), saved_.data_ptr(), current_stream());
    mixed_ = empty({rows_, part_});
    passes::answer_forward(answer(), mixed_.data_ptr(), current_stream());
    return product(mixed_, output_weight_.t());
  }

  Gradients backward(const Tensor& d_output_MP, SideWork& side) override {
    Tensor d_output_weight, d_input_weight;
    side.run([&] { d_output_weight = weight_gradient(d_output_MP, mixed_); });
    const Tensor d_mixed = product(d_output_MP, output_weight_);
    const Tensor d_projected = torch::empty_like(projected_);
    side.keep({d_output_MP, d_projected});

    const Tensor d_answer = torch::empty_like(answer_), d_head_norm_K = torch::empty_like(head_norm_K_);
    const Tensor answer_scratch = scratch_bytes(passes::answer_backward_scratch_bytes(answer()), mixed_);
    passes::answer_backward(
        answer(),
        {.out = d_mixed.data_ptr(), .gate = at_element(d_projected, gate_column_), .answer = d_answer.data_ptr()},
        answer_scratch.data_ptr(), current_stream());
    side.add(passes::answer_sum(answer(), answer_scratch.data_ptr(), d_head_norm_K.data_ptr<float>()), answer_scratch);
    const Tensor d_skip_H = skip_H_.defined() ? torch::empty_like(skip_H_) : Tensor();
    if (d_skip_H.defined())
      side.add(passes::skip_sum(answer(), answer_scratch.data_ptr(), d_skip_H.data_ptr<float>()), answer_scratch);

    const Tensor d_features = torch::empty_like(features_), d_write = torch::empty_like(write_);
    const Tensor d_log_decay = learns_decay() ? torch::empty_like(log_decay_) : Tensor();
    const Tensor memory_scratch = scratch_bytes(delta_rule_backward_scratch_bytes(memory_shape(), dtype()), mixed_);
    delta_rule_backward(memory_input(), saved_.data_ptr(), d_answer.data_ptr(),
                        {.q_BTHD = d_features.data_ptr(),
                         .k_BTHD = at_element(d_features, features_part_),
                         .v_BTHD = at_element(d_features, 2 * features_part_),
                         .beta_BTH = d_write.data_ptr(),
                         .log_decay_BTH = float_data(d_log_decay)},
                        memory_scratch.data_ptr(), current_stream());
    if (d_skip_H.defined())
      passes::add_skipped(answer(), d_answer.data_ptr(), at_element(d_features, 2 * features_part_), current_stream());

    std::vector<Tensor> others;  // gradients between those of the maps and of the norm
    if (projected_columns_ > logit_column_) {
      const Tensor scratch = scratch_bytes(passes::strengths_backward_scratch_bytes(strengths()), mixed_);
      passes::strengths_backward(strengths(), write_.data_ptr(), d_write.data_ptr(), float_data(d_log_decay),
                                 at_element(d_projected, logit_column_), scratch.data_ptr(), current_stream());
      if (bias_H_.defined()) {
        others = {torch::empty_like(bias_H_), torch::empty_like(log_rate_H_)};
        for (const GradientSum& sum : passes::strengths_sums(strengths(), scratch.data_ptr(),
                                                             others[0].data_ptr<float>(), others[1].data_ptr<float>()))
          side.add(sum, scratch);
      }
      if (write_bias_H_.defined()) {
        others.push_back(torch::empty_like(write_bias_H_));
        side.add(passes::write_bias_sum(strengths(), scratch.data_ptr(), others.back().data_ptr<float>()), scratch);
      }
    }
    const Tensor scratch = scratch_bytes(passes::features_backward_scratch_bytes(features()), mixed_);
    passes::features_backward(features(), d_features.data_ptr(), d_projected.data_ptr(), scratch.data_ptr(),
                              current_stream());
    if (convolution_CW_.defined()) {
      others.push_back(torch::empty_like(convolution_CW_));
      side.add(passes::convolution_sum(features(), scratch.data_ptr(), others.back().data_ptr<float>()), scratch);
    }
    if (convolution_bias_C_.defined()) {
      others.push_back(torch::empty_like(convolution_bias_C_));
      side.add(passes::convolution_bias_sum(features(), scratch.data_ptr(), others.back().data_ptr<float>()), scratch);
    }
    if (d_skip_H.defined()) others.push_back(d_skip_H);
    side.run([&] { d_input_weight = weight_gradient(d_projected, normed_MP_); });
    Gradients gradients{product(d_projected, input_weight_), input_packed_.gradients(d_input_weight, side)};
    gradients.parameters.insert(gradients.parameters.end(), others.begin(), others.end());
    gradients.parameters.insert(gradients.parameters.end(),
                                {d_head_norm_K, output_packed_.gradients(d_output_weight, side)[0]});
    return gradients;
  }

 private:
  int padded_width() const { return round_up(settings_.options.width, kWidthMultiple); }
  Dtype dtype() const { return kernel_dtype(normed_MP_); }
  Tensor empty(torch::IntArrayRef shape) const { return torch::empty(shape, normed_MP_.options()); }
  bool learns_decay() const {
    return strength_.decay == passes::LogDecay::kScalar || strength_.decay == passes::LogDecay::kOfWrite;
  }

  passes::Features features() const {
    const FastWeightsOptions& options = settings_.options;
    const auto of_keys = [&](const DropoutKey& dropout) {
      return passes::FeaturePart{.map = map_of(options.feature_map),
                                 .norm = norm_of(options.key_norm),
                                 .dropout = dropout,
                                 .channels = channels_,
                                 .features = static_cast<int>(options.key_width()),
                                 .nu = options.dpfp_nu,
                                 .ends_with_one = false};
    };
    const passes::FeaturePart of_values{.map = options.value_silu ? passes::Map::kSilu : passes::Map::kIdentity,
                                        .norm = passes::FeatureNorm::kNone,
                                        .dropout = settings_.value_dropout,
                                        .channels = channels_,
                                        .features = channels_,
                                        .nu = 0,
                                        .ends_with_one = answer_kind_.norm != passes::AnswerNorm::kNone};
    return {.shape = {.batch = static_cast<int>(settings_.batch),
                      .steps = static_cast<int>(settings_.steps),
                      .heads = heads_,
                      .padded = padded_,
                      .features_padded = features_padded_,
                      .projected_stride = projected_columns_},
            .dtype = dtype(),
            .part = {of_keys(settings_.query_dropout), of_keys(settings_.key_dropout), of_values},
            .projected = projected_.data_ptr(),
            .convolution = float_data(convolution_CW_),
            .bias = float_data(convolution_bias_C_),
            .directions = float_data(directions_FC_)};
  }
  passes::Strengths strengths() const {
    return {.kind = strength_,
            .rows = rows_,
            .steps = static_cast<int>(settings_.steps),
            .heads = heads_,
            .dtype = dtype(),
            .projected_stride = projected_columns_,
            .logits = at_element(projected_, logit_column_),
            .bias_H = float_data(bias_H_),
            .log_rate_H = float_data(log_rate_H_),
            .write_bias_H = float_data(write_bias_H_)};
  }
  passes::Answer answer() const {
    return {.kind = answer_kind_,
            .rows = rows_,
            .heads = heads_,
            .padded = padded_,
            .features_padded = features_padded_,
            .dtype = dtype(),
            .projected_stride = projected_columns_,
            .gate = answer_kind_.gate == passes::AnswerGate::kNone ? nullptr : at_element(projected_, gate_column_),
            .answer = answer_.data_ptr(),
            .weight = float_data(head_norm_K_),
            .one = float_data(one_),
            .skip_H = float_data(skip_H_),
            .skip_scale = scale(),
            .values = at_element(features_, 2 * features_part_),
            .values_stride = 3 * features_part_};
  }
  // What is read is multiplied with.
  float scale() const {
    return static_cast<float>(read_scale(settings_.options.attention_norm, settings_.options.key_width()));
  }
  DeltaRuleShape memory_shape() const {
    return {static_cast<int>(settings_.batch), static_cast<int>(settings_.steps), heads_, features_padded_};
  }
  DeltaRuleInput memory_input() const {
    const FastWeightsOptions& options = settings_.options;
    return {.shape = memory_shape(),
            .dtype = dtype(),
            .scale = scale(),
            .row_stride = 3 * features_part_,
            .q_BTHD = features_.data_ptr(),
            .k_BTHD = at_element(features_, features_part_),
            .v_BTHD = at_element(features_, 2 * features_part_),
            .beta_BTH = write_.data_ptr(),
            .length_B = settings_.length_B.data_ptr<int>(),
            .write = options.rule == FastRule::kDelta ? FastWeightWrite::kDelta : FastWeightWrite::kSum,
            .log_decay_BTH = float_data(log_decay_)};
  }

  FastWeightsSettings settings_;
  passes::StrengthKind strength_;
  passes::AnswerKind answer_kind_;
  std::int64_t rows_;
  int heads_, channels_, padded_, features_padded_;
  int part_, features_part_;  // columns of all heads
  int gate_column_, logit_column_, projected_columns_;
  Tensor bias_H_, log_rate_H_, write_bias_H_, convolution_CW_, convolution_bias_C_, skip_H_, directions_FC_;
  Tensor head_norm_K_;
  PackedWeights input_packed_, output_packed_;
  Tensor input_weight_, output_weight_;
  Tensor normed_MP_, projected_, features_, write_, log_decay_, one_, answer_, saved_, mixed_;
};

}  // namespace

std::unique_ptr<Branch> fast_weights_branch(const FastWeightsWeights& weights, const FastWeightsSettings& settings) {
  return std::make_unique<FastWeightsBranch>(weights, settings);
}

}  // namespace engram::fused
