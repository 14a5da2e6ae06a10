#include "memory/fused/fast_weights.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/fast_weights/delta_rule/delta_rule.h"
#include "memory/fused/fast_weights_passes.h"
#include "memory/fused/projected_branch.h"
#include "memory/fused/window_attention.h"
#include "memory/ops/delayed_rows.h"
#include "nn/device/cuda_support.h"
#include "nn/fused/rows.h"
#include "nn/fused/weights/side_work.h"

namespace engram::cuda {
namespace {

namespace passes = fast_weight_passes;
using torch::Tensor;

// A delay as long as an episode or longer writes nothing that is read in it.
std::int64_t window_within(const BesideWindow& beside, const FreshRows& rows) {
  return std::min<std::int64_t>(beside.window, rows.steps);
}

// The memory of fast weights over sequences: of the batch's rows, or of those that a delay makes of them.
class FastWeightsOfRows {
 public:
  FastWeightsOfRows(const FastWeightsSettings& settings, const HeadShape& shape, const FreshRows& rows)
      : is_delta_(settings.options.rule == FastRule::kDelta),
        heads_(shape.heads),
        batch_(rows.batch),
        steps_(rows.steps),
        length_B_(rows.length_B) {
    if (!settings.beside || !settings.beside->delay) return;
    delayed_.emplace(*settings.beside->delay, rows.batch, rows.steps, window_within(*settings.beside, rows));
    steps_ = delayed_->steps();
    length_B_ = delayed_->lengths(length_B_).contiguous();
  }

  // Features [M, 3, H X], write strengths [M, H] and logarithms of decays (may be undefined) -> answers [M, H X].
  Tensor forward(const Tensor& features, const Tensor& write, const Tensor& log_decay, float scale) {
    features_ = delayed_ ? delayed_->features(features) : features;
    write_ = delayed_ ? delayed_->write(write) : write;
    log_decay_ = log_decay;
    scale_ = scale;
    const Tensor answers = torch::empty({features_.size(0), features_.size(2)}, features_.options());
    saved_ = scratch_bytes(delta_rule_saved_bytes(shape(), dtype()), features_);
    delta_rule_forward(input(), answers.data_ptr(), saved_.data_ptr(), current_stream());
    return delayed_ ? delayed_->answers(answers) : answers;
  }

  struct Gradients {
    Tensor features, write, log_decay;
  };
  // All but the decay's are written to `into`; that of the decay is wanted where it is defined.
  void backward(const Tensor& d_answers_M, const Gradients& into) const {
    const Tensor d_answers = delayed_ ? delayed_->answers_backward(d_answers_M) : d_answers_M;
    const Tensor d_features = delayed_ ? torch::empty_like(features_) : into.features;
    const Tensor d_write = delayed_ ? torch::empty_like(write_) : into.write;
    const Tensor scratch = scratch_bytes(delta_rule_backward_scratch_bytes(shape(), dtype()), features_);
    const std::int64_t part = features_.size(2);
    delta_rule_backward(input(), saved_.data_ptr(), d_answers.data_ptr(),
                        {.q_BTHD = d_features.data_ptr(),
                         .k_BTHD = at_element(d_features, part),
                         .v_BTHD = at_element(d_features, 2 * part),
                         .beta_BTH = d_write.data_ptr(),
                         .log_decay_BTH = float_data(into.log_decay)},
                        scratch.data_ptr(), current_stream());
    if (!delayed_) return;
    delayed_->features_backward(d_features, into.features);
    delayed_->write_backward(d_write, into.write);
  }

 private:
  Dtype dtype() const { return kernel_dtype(features_); }
  DeltaRuleShape shape() const {
    return {static_cast<int>(batch_), static_cast<int>(steps_), heads_, static_cast<int>(features_.size(2)) / heads_};
  }
  DeltaRuleInput input() const {
    const std::int64_t part = features_.size(2);
    return {.shape = shape(),
            .dtype = dtype(),
            .scale = scale_,
            .row_stride = 3 * part,
            .q_BTHD = features_.data_ptr(),
            .k_BTHD = at_element(features_, part),
            .v_BTHD = at_element(features_, 2 * part),
            .beta_BTH = write_.data_ptr(),
            .length_B = length_B_.data_ptr<int>(),
            .write = is_delta_ ? FastWeightWrite::kDelta : FastWeightWrite::kSum,
            .log_decay_BTH = float_data(log_decay_)};
  }

  bool is_delta_;
  int heads_;
  std::int64_t batch_, steps_;
  std::optional<DelayedRows> delayed_;
  Tensor length_B_;
  float scale_ = 1;
  Tensor features_, write_, log_decay_, saved_;
};

// The window's attention beside fast weights.
class WindowBeside {
 public:
  WindowBeside(const BesideWindow& settings, const HeadShape& shape, const FreshRows& rows)
      : part_(shape.part), attention_(shape, rows.batch, rows.steps, rows.lengths_B, window_settings(settings)) {}

  // Queries and keys are the first columns of `rows`; values_M: rows of values a head `padded` elements apart.
  Tensor forward(const Tensor& rows_MC, const Tensor& values_M) {
    rows_ = rows_MC;
    values_ = values_M;
    const std::int64_t columns = rows_.stride(0);
    return attention_.forward({rows_.data_ptr(), columns}, {at_element(rows_, part_), columns},
                              {values_.data_ptr(), values_.stride(0)}, rows_);
  }

  // Writes the gradients of queries and keys to the first columns of d_rows; returns that of the values [M, part].
  Tensor backward(const Tensor& d_output_M, const Tensor& d_rows_MC) const {
    const Tensor d_values = torch::empty_like(d_output_M);
    const std::int64_t columns = d_rows_MC.stride(0);
    attention_.backward(d_output_M, {d_rows_MC.data_ptr(), columns}, {at_element(d_rows_MC, part_), columns},
                        {d_values.data_ptr(), part_});
    return d_values;
  }

 private:
  std::int64_t part_;
  WindowAttention attention_;
  Tensor rows_, values_;
};

class FastWeightsCore : public Core, private FastWeightsPasses {
 public:
  FastWeightsCore(const FastWeightsWeights& weights, const FastWeightsSettings& settings, const HeadShape& shape,
                  const FreshRows& rows)
      : Core(shape),
        FastWeightsPasses(weights, settings, rows.batch, rows.steps, projection_),
        memory_(settings, shape, rows) {
    if (settings.beside) beside_.emplace(*settings.beside, shape, rows);
    for (const Tensor& parameter :
         {weights.decay_bias_H, weights.log_rate_H, weights.write_bias_H, weights.convolution_CW,
          weights.convolution_bias_C, weights.skip_H, weights.head_norm_K})
      if (parameter.defined()) parameters_.push_back(parameter);
  }

  Tensor forward(const Tensor& projected_MC) override {
    features_forward(projected_MC);
    Tensor answer, window;
    const auto remember = [&] {
      strengths_forward();
      answer = memory_.forward(features_, write_, log_decay_, scale());
    };
    if (beside_) {
      const SideWork fast_weights(SideStreamOf::kDeltaRule);
      fast_weights.run(remember);
      window = beside_->forward(rows_of_window(), values_of_window());
      fast_weights.join();
    } else {
      remember();
    }
    return answer_forward(answer, window);
  }

  Gradients backward(const Tensor& d_output_MP, SideWork& side) override {
    const Tensor d_projected = torch::empty_like(projected_), d_answer = torch::empty_like(answer_);
    const Tensor d_window = beside_ ? torch::empty_like(window_) : Tensor();
    const Tensor d_head_norm_K = torch::empty_like(head_norm_K_);
    const Tensor answer_scratch = scratch_bytes(passes::answer_backward_scratch_bytes(answer()), answer_);
    passes::answer_backward(answer(),
                            {.out = d_output_MP.data_ptr(),
                             .gate = at_element(d_projected, gate_column_),
                             .mix_gate = at_element(d_projected, mix_column_),
                             .answer = d_answer.data_ptr(),
                             .window = d_window.defined() ? d_window.data_ptr() : nullptr},
                            answer_scratch.data_ptr(), current_stream());
    side.add(passes::answer_sum(answer(), answer_scratch.data_ptr(), d_head_norm_K.data_ptr<float>()), answer_scratch);
    const Tensor d_skip_H = skip_H_.defined() ? torch::empty_like(skip_H_) : Tensor();
    if (d_skip_H.defined())
      side.add(passes::skip_sum(answer(), answer_scratch.data_ptr(), d_skip_H.data_ptr<float>()), answer_scratch);

    const FastWeightsOfRows::Gradients d{torch::empty_like(features_), torch::empty_like(write_),
                                         learns_decay() ? torch::empty_like(log_decay_) : Tensor()};
    const Tensor strengths_scratch = scratch_bytes(passes::strengths_backward_scratch_bytes(strengths()), answer_);
    const auto remember = [&] {
      memory_.backward(d_answer, d);
      if (columns_ > logit_column_)
        passes::strengths_backward(strengths(), write_.data_ptr(), d.write.data_ptr(), float_data(d.log_decay),
                                   at_element(d_projected, logit_column_), strengths_scratch.data_ptr(),
                                   current_stream());
    };
    Tensor d_window_value, d_window_rows;
    if (beside_) {
      if (window_rows_.defined()) d_window_rows = torch::empty_like(window_rows_);
      const SideWork fast_weights(SideStreamOf::kDeltaRule);
      fast_weights.run(remember);
      d_window_value = beside_->backward(d_window, d_window_rows.defined() ? d_window_rows : d_projected);
      fast_weights.join();
    } else {
      remember();
    }
    if (d_skip_H.defined())
      passes::add_skipped(answer(), d_answer.data_ptr(), at_element(d.features, 2 * features_part_), current_stream());

    Gradients gradients{d_projected, strength_gradients(strengths_scratch, side)};
    const Tensor features_scratch = scratch_bytes(passes::features_backward_scratch_bytes(features()), answer_);
    passes::features_backward(features(),
                              {.features = d.features.data_ptr(),
                               .window_value = d_window_value.defined() ? d_window_value.data_ptr() : nullptr,
                               .window_rows = d_window_rows.defined() ? d_window_rows.data_ptr() : nullptr},
                              d_projected.data_ptr(), features_scratch.data_ptr(), current_stream());
    for (const Tensor& gradient : convolution_gradients(features_scratch, side))
      gradients.parameters.push_back(gradient);
    if (d_skip_H.defined()) gradients.parameters.push_back(d_skip_H);
    gradients.parameters.push_back(d_head_norm_K);
    return gradients;
  }

 private:
  // Of a decay's bias and rate and of the write strengths' bias.
  std::vector<Tensor> strength_gradients(const Tensor& scratch, SideWork& side) const {
    std::vector<Tensor> gradients;
    if (bias_H_.defined()) {
      gradients = {torch::empty_like(bias_H_), torch::empty_like(log_rate_H_)};
      for (const GradientSum& sum : passes::strengths_sums(
               strengths(), scratch.data_ptr(), gradients[0].data_ptr<float>(), gradients[1].data_ptr<float>()))
        side.add(sum, scratch);
    }
    if (write_bias_H_.defined()) {
      gradients.push_back(torch::empty_like(write_bias_H_));
      side.add(passes::write_bias_sum(strengths(), scratch.data_ptr(), gradients.back().data_ptr<float>()), scratch);
    }
    return gradients;
  }
  std::vector<Tensor> convolution_gradients(const Tensor& scratch, SideWork& side) const {
    std::vector<Tensor> gradients;
    if (convolution_CW_.defined()) {
      gradients.push_back(torch::empty_like(convolution_CW_));
      side.add(passes::convolution_sum(features(), scratch.data_ptr(), gradients.back().data_ptr<float>()), scratch);
    }
    if (convolution_bias_C_.defined()) {
      gradients.push_back(torch::empty_like(convolution_bias_C_));
      side.add(passes::convolution_bias_sum(features(), scratch.data_ptr(), gradients.back().data_ptr<float>()),
               scratch);
    }
    return gradients;
  }

  FastWeightsOfRows memory_;
  std::optional<WindowBeside> beside_;
};

}  // namespace

std::unique_ptr<Branch> fast_weights_branch(const FastWeightsWeights& weights, const FastWeightsSettings& settings,
                                            const FreshRows& rows) {
  const HeadShape shape(settings.options.width, settings.options.heads);
  return projected_branch(std::make_unique<FastWeightsCore>(weights, settings, shape, rows), {weights.output_DD, {}});
}

}  // namespace engram::cuda
