#include "memory/backbones/fast_weights/fast_weight_maps.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "memory/core/block_stack.h"
#include "memory/ops/ops.h"
#include "nn/device/autocast.h"
#include "nn/layers/layers.h"

namespace engram {
namespace {

using torch::Tensor;

constexpr double kSumEpsilon = 1e-6;
constexpr double kVectorDecayTemperature = 16;  // GLA's

// Rows that are orthogonal to each other in groups of `channels`, of the lengths of independent Gaussian rows
// (Choromanski et al. 2021, section 2.4).
Tensor orthogonal_directions(std::int64_t count, std::int64_t channels) {
  std::vector<Tensor> groups;
  for (std::int64_t first = 0; first < count; first += channels) {
    const Tensor orthogonal = std::get<0>(torch::linalg_qr(torch::randn({channels, channels}))).t();
    groups.push_back(orthogonal.narrow(0, 0, std::min(channels, count - first)));
  }
  return torch::cat(groups) * torch::randn({count, channels}).norm(2, 1, /*keepdim=*/true);
}

// DPFP-nu: r_i r_{i - j} for j = 1 .. nu, r = [relu(x), relu(-x)] (Schlag et al. 2021, equation 37 and listing 1).
Tensor dpfp(const Tensor& x, std::int64_t nu) {
  const Tensor rectified = torch::cat({x.relu(), (-x).relu()}, -1);
  std::vector<Tensor> products;
  for (std::int64_t shift = 1; shift <= nu; ++shift) products.push_back(rectified * rectified.roll(shift, -1));
  return torch::cat(products, -1);
}

// FAVOR+: exp(-|x|^2 / 2) / sqrt(2 F) [exp(R x), exp(-R x)], whose products estimate exp(q . k / sqrt(C)).
Tensor favor(const Tensor& x, const Tensor& directions_FC) {
  const ComputeIn products(x.device(), directions_FC.scalar_type());
  const double channels = static_cast<double>(x.size(-1)), features = static_cast<double>(directions_FC.size(0));
  const Tensor own = x.to(directions_FC.scalar_type()) * std::pow(channels, -0.25);
  const Tensor along = torch::matmul(own, directions_FC.t());
  const Tensor half_square = own.square().sum(-1, /*keepdim=*/true) / 2;
  return torch::cat({along - half_square, -along - half_square}, -1).exp() / std::sqrt(2 * features);
}

// softplus(c) in 0.001 .. 0.1, its logarithm uniform: Mamba-2's first step sizes.
Tensor first_step_bias(std::int64_t count) {
  const Tensor step = torch::exp(torch::empty({count}).uniform_(std::log(1e-3), std::log(1e-1)));
  return step + torch::log(-torch::expm1(-step));
}

struct FirstScalarDecay {
  Tensor bias_H, log_rate_H;
};
// FirstDecay; the values are those of the authors' code.
FirstScalarDecay first_scalar_decay(FirstDecay kind, std::int64_t heads) {
  if (kind == FirstDecay::kMLstm) return {-torch::linspace(3, 6, heads), torch::zeros({heads})};
  const Tensor bias_H = first_step_bias(heads);
  // In 0 .. 16 from above: a rate of 0 has no logarithm.
  return {bias_H, torch::log(kind == FirstDecay::kMamba2 ? torch::empty({heads}).uniform_(1, 16)
                                                         : 16 - torch::empty({heads}).uniform_(0, 16))};
}

// Of the map to a decay per channel; of kVectorStep as the authors' code has it.
std::int64_t decay_rank(const FastWeightsOptions& options) {
  return options.decay == Decay::kVector ? FastWeightsOptions::kVectorDecayRank : options.width / options.heads;
}

}  // namespace

FastWeightFeatures::FastWeightFeatures(const FastWeightsOptions& options)
    : map_(options.feature_map), norm_(options.key_norm), nu_(options.dpfp_nu) {
  if (map_ == FeatureMap::kFavor)
    directions_FC_ =
        register_parameter("directions", orthogonal_directions(options.favor_features, options.width / options.heads),
                           /*requires_grad=*/false);
}

Tensor FastWeightFeatures::forward(const Tensor& x) const {
  switch (map_) {
    case FeatureMap::kSilu:
      return torch::silu(x);
    case FeatureMap::kRelu:
      return torch::relu(x);
    case FeatureMap::kElu:
      return torch::elu(x) + 1;
    case FeatureMap::kDpfp:
      return dpfp(x, nu_);
    case FeatureMap::kFavor:
      return favor(x, directions_FC_);
    case FeatureMap::kIdentity:
      break;
  }
  return x.contiguous();
}

Tensor FastWeightFeatures::normalize(const Tensor& features) const {
  if (norm_ == KeyNorm::kL2) return l2_normalize(features);
  if (norm_ == KeyNorm::kNone) return features;
  const Tensor own = wide(features);
  return own / (own.sum(-1, /*keepdim=*/true) + kSumEpsilon);
}

std::int64_t FastWeightFeatures::multiply_adds(const FastWeightsOptions& options) {
  return options.feature_map == FeatureMap::kFavor ? 2 * std::int64_t{options.width} * options.favor_features : 0;
}

Tensor fixed_log_decay(const Tensor& like) {
  const std::int64_t heads = like.size(-2);
  const Tensor head_H1 = torch::arange(heads, like.options().requires_grad(false)).unsqueeze(1);
  // exp2 of LibTorch (2.11) compiles its kernel in each process on a GPU.
  return torch::log1p(-torch::pow(2, -5 - head_H1)).expand_as(like);
}

InputDecay::InputDecay(const FastWeightsOptions& options) : heads_(options.heads) {
  const FirstWeights first = first_weights(options);
  if (options.decays_by_channel()) {
    const std::int64_t channels = options.heads * options.key_width(), rank = decay_rank(options);
    down_ = register_module("down", first.inner_map(options.width, rank));
    up_ = register_module("up", first.inner_map(rank, channels));
    const bool by_step = options.decay == Decay::kVectorStep;
    bias_ = register_parameter("bias", by_step ? first_step_bias(channels) : torch::zeros({channels}));
    if (by_step)
      log_rate_H_ = register_parameter("log_rate", torch::log(torch::empty({options.heads}).uniform_(1, 16)));
    return;
  }
  map_ = register_module("map", first.inner_map(options.width, options.heads));
  const FirstScalarDecay values = first_scalar_decay(options.first_decay, options.heads);
  bias_ = register_parameter("bias", values.bias_H);
  log_rate_H_ = register_parameter("log_rate", values.log_rate_H);
  if (options.first_decay == FirstDecay::kMLstm) torch::nn::init::zeros_(map_->weight);
}

InputDecay::Output InputDecay::forward(const Tensor& x) {
  if (down_) {
    const Tensor logit = split_heads(wide(apply_linear(up_, apply_linear(down_, x))) + bias_, heads_);
    if (!log_rate_H_.defined()) return {torch::log_sigmoid(logit) / kVectorDecayTemperature, {}};
    return {-torch::softplus(logit) * log_rate_H_.exp().unsqueeze(1), {}};
  }
  const Tensor step = torch::softplus(wide(apply_linear(map_, x)) + bias_);
  return {(-step * log_rate_H_.exp()).unsqueeze(-1), step};
}

std::int64_t InputDecay::multiply_adds(const FastWeightsOptions& options) {
  if (options.decay == Decay::kScalar) return std::int64_t{options.width} * options.heads;
  return options.decays_by_channel() ? decay_rank(options) * (options.width + options.heads * options.key_width()) : 0;
}

}  // namespace engram
