#include "nn/layers.h"

namespace engram {
torch::nn::Linear make_linear(std::int64_t inputs, std::int64_t outputs, double std) {
  torch::nn::Linear linear(torch::nn::LinearOptions(inputs, outputs).bias(false));
  torch::nn::init::normal_(linear->weight, 0, std);
  return linear;
}

torch::Tensor split_heads(const torch::Tensor& x, std::int64_t heads) { return x.unflatten(-1, {heads, -1}); }

torch::Tensor join_heads(const torch::Tensor& x) { return x.flatten(-2); }

RmsNorm::RmsNorm(std::int64_t width) : weight_(register_parameter("weight", torch::ones({width}))) {}

torch::Tensor RmsNorm::forward(const torch::Tensor& x) {
  return torch::rms_norm(x.to(weight_.scalar_type()), weight_.sizes(), weight_, kRmsNormEpsilon);
}

SwiGlu::SwiGlu(std::int64_t width, std::int64_t inner, double residual_std)
    : gate_(register_module("gate", make_linear(width, inner, kWeightStd))),
      up_(register_module("up", make_linear(width, inner, kWeightStd))),
      down_(register_module("down", make_linear(inner, width, residual_std))) {}

torch::Tensor SwiGlu::forward(const torch::Tensor& x) {
  return down_->forward(torch::silu(gate_->forward(x)) * up_->forward(x));
}

}  // namespace engram
