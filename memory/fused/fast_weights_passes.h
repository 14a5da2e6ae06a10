// What comes before the memories of a mixer with fast weights and after them, by kernels/fast_weights/passes: for the
// mixer over sequences and for one step.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "kernels/fast_weights/passes/passes.h"
#include "memory/fused/attention.h"
#include "memory/fused/fast_weights.h"
#include "memory/fused/projected_branch.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {

// How the window attends.
inline WindowSettings window_settings(const BesideWindow& beside) {
  return {
      .window = beside.window, .rotary = beside.rotary, .weight_dropout = {}, .chunked = beside.delay == Delay::kChunk};
}

// Of B T rows. The tensors are those of a forward pass, and what its backward pass needs of it.
class FastWeightsPasses {
 public:
  // Adds the maps to the projection.
  FastWeightsPasses(const FastWeightsWeights& weights, const FastWeightsSettings& settings, std::int64_t batch,
                    std::int64_t steps, Projection& projection);

  // Reads the projection, of which a window's queries and keys become what dropout leaves of them, without a
  // convolution.
  void features_forward(const torch::Tensor& projected_MC);
  void strengths_forward();  // after it
  // From the memories' answers, each [M, H, ...] -> [M, part]. window: undefined without one.
  torch::Tensor answer_forward(const torch::Tensor& answer, const torch::Tensor& window);

 protected:
  bool has_window() const { return settings_.beside.has_value(); }
  bool learns_decay() const {
    return strength_.decay == fast_weight_passes::LogDecay::kScalar ||
           strength_.decay == fast_weight_passes::LogDecay::kOfWrite;
  }
  Dtype dtype() const { return kernel_dtype(projected_); }
  torch::Tensor empty(torch::IntArrayRef shape) const { return torch::empty(shape, projected_.options()); }
  // What is read is multiplied with.
  float scale() const;
  // Rows that begin with the queries and keys, all heads' of each, as a window reads them.
  torch::Tensor rows_of_window() const { return window_rows_.defined() ? window_rows_ : projected_; }
  // The values as a window reads them, heads `padded` apart: where a head's features are those of its values alone,
  // where they stand.
  torch::Tensor values_of_window() const;

  fast_weight_passes::Features features() const;
  fast_weight_passes::Strengths strengths() const;
  fast_weight_passes::Answer answer() const;

  FastWeightsSettings settings_;
  HeadShape shape_;
  fast_weight_passes::StrengthKind strength_;
  fast_weight_passes::AnswerKind answer_kind_;
  std::int64_t batch_, steps_, rows_;
  int features_padded_, features_part_;  // of a head, and columns of all heads
  int gate_column_, mix_column_, logit_column_, columns_;
  torch::Tensor bias_H_, log_rate_H_, write_bias_H_, convolution_CW_, convolution_bias_C_, skip_H_, directions_FC_;
  torch::Tensor head_norm_K_;
  torch::Tensor projected_, features_, write_, log_decay_, one_, answer_, window_;
  torch::Tensor window_rows_;  // [M, 2 part], of a window behind a convolution; undefined: what it reads is projected_
};

}  // namespace engram::cuda
