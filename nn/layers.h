// The layers that blocks are built of. Linear maps without bias, weights N(0, 0.02), those that write into a residual
// stream smaller by sqrt(2 * layers).
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>

#include "nn/fused_swiglu.h"

namespace engram {

inline constexpr double kWeightStd = 0.02;
inline constexpr double kRmsNormEpsilon = 1e-6;
inline constexpr double kLayerNormEpsilon = 1e-5;

// The deviation of the weights whose output is added to x, two maps in each layer (Radford et al. 2019).
inline double residual_weight_std(int layers) { return kWeightStd / std::sqrt(2.0 * layers); }

// A linear map without bias, with weights N(0, std).
torch::nn::Linear make_linear(std::int64_t inputs, std::int64_t outputs, double std);

// [..., D] -> [..., H, D / H] and back.
torch::Tensor split_heads(const torch::Tensor& x, std::int64_t heads);
torch::Tensor join_heads(const torch::Tensor& x);

// x / sqrt(mean(x^2) + 1e-6) * weight over the last dimension (Zhang and Sennrich 2019), in the weight's type.
class RmsNorm : public torch::nn::Module {
 public:
  explicit RmsNorm(std::int64_t width);
  torch::Tensor forward(const torch::Tensor& x);
  const torch::Tensor& weight() const { return weight_; }

 private:
  torch::Tensor weight_;
};

// down(silu(gate x) * up x) (Shazeer 2020).
class SwiGlu : public torch::nn::Module {
 public:
  SwiGlu(std::int64_t width, std::int64_t inner, double residual_std);
  torch::Tensor forward(const torch::Tensor& x);
  fused::SwiGluWeights fused_weights() const { return {gate_->weight, up_->weight, down_->weight}; }

 private:
  torch::nn::Linear gate_, up_, down_;
};

}  // namespace engram
