// The parts of a fast-weight layer before its memory (memory/backbones/fast_weights/fast_weights.h): feature maps of
// queries and keys, decays from the input, the short convolution. Each also as a step where time matters; their matrix
// products for ModelCost.
//
// Shapes: B batch, T time, H heads, C channels. Leading dimensions "..." are [B, T] or [B].
#pragma once

#include <ATen/OpMathType.h>
#include <torch/torch.h>

#include <cstdint>

#include "memory/backbones/fast_weights/fast_weights.h"

namespace engram {

// In float32 at least: cumulative decays are sums of many logarithms.
inline torch::Tensor wide(const torch::Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }

// What queries and keys pass before the memory.
class FastWeightFeatures : public torch::nn::Module {
 public:
  // FAVOR+ draws its random directions here, once: a parameter without gradient, so that weights that are saved have
  // it.
  explicit FastWeightFeatures(const FastWeightsOptions& options);

  // [..., H, width / heads] -> [..., H, key_width()], in float32 at least for FAVOR+.
  torch::Tensor forward(const torch::Tensor& x) const;
  // Divided by their length or their sum, both with 1e-6 against zero.
  torch::Tensor normalize(const torch::Tensor& features) const;

  const torch::Tensor& directions_FC() const { return directions_FC_; }

  static std::int64_t multiply_adds(const FastWeightsOptions& options);

 private:
  FeatureMap map_;
  KeyNorm norm_;
  std::int64_t nu_;
  torch::Tensor directions_FC_;  // of FAVOR+: rows orthogonal in groups of C, as long as Gaussian ones
};

// RetNet's decay of head h, log(1 - 2^(-5-h)), for `like` [..., H, 1], in its type.
torch::Tensor fixed_log_decay(const torch::Tensor& like);

// Decay::kScalar, kVector or kVectorStep.
class InputDecay : public torch::nn::Module {
 public:
  explicit InputDecay(const FastWeightsOptions& options);

  struct Output {
    torch::Tensor log_decay;  // [..., H, 1] or [..., H, key_width()], <= 0
    torch::Tensor step;       // [..., H], of kScalar: softplus(w x + c), > 0
  };
  // x [..., D]; in float32 at least.
  Output forward(const torch::Tensor& x);

  // Of kScalar: w, c and A.
  const torch::Tensor& weight_HD() const { return map_->weight; }
  const torch::Tensor& bias_H() const { return bias_; }
  const torch::Tensor& log_rate_H() const { return log_rate_H_; }

  static std::int64_t multiply_adds(const FastWeightsOptions& options);

 private:
  int heads_;
  torch::nn::Linear map_{nullptr}, down_{nullptr}, up_{nullptr};
  torch::Tensor bias_, log_rate_H_;
};

}  // namespace engram
