#include "nn/layers/layers.h"

#include <algorithm>
#include <cmath>

#include "nn/cpu/layers.h"
#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"
#include "nn/fused/maps.h"
#include "nn/fused/norm.h"

namespace engram {
namespace {

torch::nn::Linear make_linear(std::int64_t inputs, std::int64_t outputs) {
  return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(false));
}

// By nn/fused/maps.h.
bool are_one_product(const std::vector<cuda::LinearMap>& maps, const torch::Tensor& x) {
  return !PlainOperations::on() && x.is_cuda() && product_dtype(x.device(), x.scalar_type()) == torch::kBFloat16 &&
         x.numel() > 0 && std::ranges::all_of(maps, [&](const cuda::LinearMap& map) {
           return map.weight_OI.scalar_type() == torch::kFloat32 && map.weight_OI.device() == x.device();
         });
}

std::vector<torch::Tensor> apply_maps(const std::vector<cuda::LinearMap>& maps, const torch::Tensor& x) {
  if (are_one_product(maps, x)) return cuda::linear_maps(x.to(torch::kBFloat16), maps);
  std::vector<torch::Tensor> outputs;
  for (const auto& [weight_OI, bias_O] : maps)
    outputs.push_back(cpu::takes(x) && cpu::takes(weight_OI) ? cpu::linear(x, weight_OI, bias_O)
                                                             : torch::nn::functional::linear(x, weight_OI, bias_O));
  return outputs;
}

}  // namespace

torch::nn::Linear FirstWeights::inner_map(std::int64_t inputs, std::int64_t outputs) const {
  torch::nn::Linear linear = make_linear(inputs, outputs);
  torch::nn::init::normal_(linear->weight, 0, deviation);
  return linear;
}

torch::nn::Linear FirstWeights::output_map(std::int64_t inputs, std::int64_t outputs) const {
  torch::nn::Linear linear = make_linear(inputs, outputs);
  const double divisor = std::sqrt(2.0 * layers);
  if (!kaiming_outputs) {
    torch::nn::init::normal_(linear->weight, 0, deviation / divisor);
    return linear;
  }
  torch::nn::init::kaiming_uniform_(linear->weight, std::sqrt(5.0));
  const torch::NoGradGuard no_grad;
  linear->weight.div_(divisor);
  return linear;
}

std::vector<torch::Tensor> apply_linears(const std::vector<torch::nn::Linear>& maps, const torch::Tensor& x) {
  std::vector<cuda::LinearMap> weights;
  for (const torch::nn::Linear& map : maps) weights.push_back({map->weight, map->bias});
  return apply_maps(weights, x);
}

torch::Tensor apply_linear(const torch::nn::Linear& map, const torch::Tensor& x) { return apply_linears({map}, x)[0]; }

torch::Tensor apply_weight(const torch::Tensor& weight_OI, const torch::Tensor& x) {
  return apply_maps({{weight_OI, {}}}, x)[0];
}

torch::Tensor add_scaled(const torch::Tensor& z, const torch::Tensor& scale_D, const torch::Tensor& x) {
  const bool by_kernel = cuda::takes_rows(x) && z.scalar_type() == x.scalar_type() &&
                         scale_D.scalar_type() == torch::kFloat32 && scale_D.device() == x.device();
  return by_kernel ? cuda::add_scaled(z, scale_D, x) : z + scale_D * x;
}

torch::Tensor apply_layer_norm(const torch::nn::LayerNorm& norm, const torch::Tensor& x) {
  const cuda::Norm own(norm->weight, norm->bias);
  return cuda::takes_norm(x, own) ? cuda::normed(x, own) : torch::nn::LayerNorm(norm)->forward(x);
}

torch::Tensor split_heads(const torch::Tensor& x, std::int64_t heads) { return x.unflatten(-1, {heads, -1}); }

std::vector<torch::Tensor> apply_in_heads(const std::vector<torch::nn::Linear>& maps, const torch::Tensor& x,
                                          std::int64_t heads) {
  std::vector<torch::Tensor> mapped = apply_linears(maps, x);
  for (torch::Tensor& own : mapped) own = split_heads(own, heads);
  return mapped;
}

torch::Tensor join_heads(const torch::Tensor& x) { return x.flatten(-2); }

RmsNorm::RmsNorm(std::int64_t width) : weight_(register_parameter("weight", torch::ones({width}))) {}

torch::Tensor RmsNorm::forward(const torch::Tensor& x) {
  if (cpu::takes(x) && cpu::takes(weight_)) return cpu::rms_norm(x, weight_, kRmsNormEpsilon);
  if (cuda::takes_norm(x, weight_)) return cuda::normed(x, weight_);
  return torch::rms_norm(x.to(weight_.scalar_type()), weight_.sizes(), weight_, kRmsNormEpsilon);
}

SwiGlu::SwiGlu(std::int64_t width, std::int64_t inner, const FirstWeights& weights)
    : gate_(register_module("gate", weights.inner_map(width, inner))),
      up_(register_module("up", weights.inner_map(width, inner))),
      down_(register_module("down", weights.output_map(inner, width))) {}

torch::Tensor SwiGlu::forward(const torch::Tensor& x) {
  if (cpu::takes(x) && cpu::takes(gate_->weight)) return cpu::swiglu(x, gate_->weight, up_->weight, down_->weight);
  return down_->forward(torch::silu(gate_->forward(x)) * up_->forward(x));
}

}  // namespace engram
