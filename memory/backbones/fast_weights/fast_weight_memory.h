// FastWeightMemory: what a layer with fast weights has between its projections and what it makes of the outcome:
// feature maps, write strengths, decays and the memory itself. The family fast_weights has it alone, HQLT beside a
// window.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/support.h"
#include "memory/backbones/fast_weights/fast_weight_maps.h"
#include "memory/backbones/fast_weights/fast_weights.h"
#include "memory/fused/fast_weights.h"
#include "memory/ops/fast_weight_ops.h"
#include "nn/layers/dropout.h"

namespace engram {

class FastWeightMemory {
 public:
  // The weights belong to `layer`, under the names beta, beta_bias, features and decay; of FastWeightsOptions nothing
  // else is used than what list_memory() lists, and the first weights.
  FastWeightMemory(torch::nn::Module& layer, const FastWeightsOptions& options);

  // Of one row and layer, in the order that forward() and step() take.
  static std::vector<std::vector<std::int64_t>> state_shapes(const FastWeightsOptions& options);
  static std::int64_t multiply_adds_per_step(const FastWeightsOptions& options);

  // [..., H, C] -> [..., H, key_width()]: the feature map, dropout if there is any, the key norm.
  torch::Tensor feature(const torch::Tensor& x, const Dropout* dropout = nullptr) const;
  // x [..., D] gives write strengths and decays; query and key are features, [..., H, key_width()]; value [..., H, V].
  // With n Householder steps key and value, and then the write strengths, have n H heads: those of the first step
  // first.
  FastWeightInput input(const torch::Tensor& x, torch::Tensor query, torch::Tensor key, torch::Tensor value);

  // Appends the new state to `final_state`; the output's shape is [B, T, H, V]. forgets: as Span's (layer.h); the
  // state is zero, and may be appended as it is.
  torch::Tensor forward(const FastWeightInput& input, std::span<const torch::Tensor> state,
                        const torch::Tensor& lengths_B, std::vector<torch::Tensor>& final_state, bool forgets) const;
  // Writes the new state into the tensors of `state`; the output's shape is [B, H, V]. Without gradients.
  torch::Tensor step(const FastWeightInput& input, std::span<const torch::Tensor> state) const;

  // Whether there are kernels for learning with these fast weights.
  static Support supports_learning(const FastWeightsOptions& options);
  // And for all of a mixer with them (memory/fused/fast_weights.h).
  static Support supports_mixer(const FastWeightsOptions& options);

  // And for a step of a mixer with them.
  static Support supports_step(const FastWeightsOptions& options, torch::ScalarType dtype, torch::Device device);

  // Whether a step's write strength says what the memory answered before; those of sums do not.
  bool writes_by_delta_rule() const { return rule_.delta; }
  // The memory's own, as a mixer's branch takes them; all others are undefined.
  cuda::FastWeightsWeights fused_weights() const;
  // The memory's own tensors of a layer's state, as a step's branch takes them.
  cuda::FastWeightsStepState step_state(std::span<const torch::Tensor> state) const;

 private:
  // forward() of one write a step.
  torch::Tensor remember(const FastWeightInput& input, std::span<const torch::Tensor> state,
                         const torch::Tensor& lengths_B, std::vector<torch::Tensor>& final_state, bool forgets) const;
  FastWeightState state_of(std::span<const torch::Tensor> state) const;

  FastWeightsOptions options_;
  FastWeightRule rule_;
  torch::nn::Linear beta_{nullptr};
  torch::Tensor write_bias_H_;
  std::shared_ptr<FastWeightFeatures> features_;
  std::shared_ptr<InputDecay> decay_;
};

}  // namespace engram
