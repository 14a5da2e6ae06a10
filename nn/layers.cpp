#include "nn/layers.h"

#include <cmath>

#include "nn/cpu/layers.h"

namespace engram {
namespace {

torch::nn::Linear make_linear(std::int64_t inputs, std::int64_t outputs) {
  return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(false));
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

torch::Tensor apply_linear(torch::nn::Linear& map, const torch::Tensor& x) {
  return cpu::takes(x) && cpu::takes(map->weight) ? cpu::linear(x, map->weight, map->bias) : map->forward(x);
}

torch::Tensor split_heads(const torch::Tensor& x, std::int64_t heads) { return x.unflatten(-1, {heads, -1}); }

torch::Tensor join_heads(const torch::Tensor& x) { return x.flatten(-2); }

RmsNorm::RmsNorm(std::int64_t width) : weight_(register_parameter("weight", torch::ones({width}))) {}

torch::Tensor RmsNorm::forward(const torch::Tensor& x) {
  if (cpu::takes(x) && cpu::takes(weight_)) return cpu::rms_norm(x, weight_, kRmsNormEpsilon);
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
