// The layers that blocks are built of, and their first weights. Linear maps without bias.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "nn/fused/swiglu.h"

namespace engram {

inline constexpr double kRmsNormEpsilon = 1e-6;
inline constexpr double kLayerNormEpsilon = 1e-5;

// How the first weights of a stack's linear maps are drawn. Those of the maps whose output is added to x, two in each
// layer, are divided by sqrt(2 layers) (Radford et al. 2019).
struct FirstWeights {
  double deviation;      // N(0, deviation)
  bool kaiming_outputs;  // those into x are Kaiming's uniform ones instead: U(+-1 / sqrt(inputs)) (He et al. 2015)
  int layers;

  torch::nn::Linear inner_map(std::int64_t inputs, std::int64_t outputs) const;
  torch::nn::Linear output_map(std::int64_t inputs, std::int64_t outputs) const;
};

// Each map's map(x): by the loops of nn/cpu where these take it; in bfloat16 on a GPU as one product (nn/fused/maps.h).
std::vector<torch::Tensor> apply_linears(const std::vector<torch::nn::Linear>& maps, const torch::Tensor& x);
torch::Tensor apply_linear(const torch::nn::Linear& map, const torch::Tensor& x);

// W x of a weight [O, I] that is made of parameters, as apply_linears() computes it.
torch::Tensor apply_weight(const torch::Tensor& weight_OI, const torch::Tensor& x);

// z + scale x, a scale for each of the last dimension's channels; on a GPU by a kernel where that takes it.
torch::Tensor add_scaled(const torch::Tensor& z, const torch::Tensor& scale_D, const torch::Tensor& x);

// [..., D] -> [..., H, D / H] and back.
torch::Tensor split_heads(const torch::Tensor& x, std::int64_t heads);
torch::Tensor join_heads(const torch::Tensor& x);
// Each map's map(x) in heads.
std::vector<torch::Tensor> apply_in_heads(const std::vector<torch::nn::Linear>& maps, const torch::Tensor& x,
                                          std::int64_t heads);

// (x - mean(x)) / sqrt(var(x) + 1e-5) * weight + bias over the last dimension (Ba et al. 2016): on a GPU by a kernel
// where that takes it (nn/fused/norm.h). The norm's epsilon is kLayerNormEpsilon.
torch::Tensor apply_layer_norm(const torch::nn::LayerNorm& norm, const torch::Tensor& x);

// x / sqrt(mean(x^2) + 1e-6) * weight over the last dimension (Zhang and Sennrich 2019), in the weight's type; in x's
// where a kernel computes it on a GPU (nn/fused/norm.h).
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
  SwiGlu(std::int64_t width, std::int64_t inner, const FirstWeights& weights);
  torch::Tensor forward(const torch::Tensor& x);
  cuda::SwiGluWeights fused_weights() const { return {gate_->weight, up_->weight, down_->weight}; }

 private:
  torch::nn::Linear gate_, up_, down_;
};

}  // namespace engram
