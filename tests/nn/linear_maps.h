// Shared by the tests of nn/fused/maps.h on either device: maps of all sizes, and what is learnt of them.
#pragma once

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace engram::testing {

inline double relative_error(const torch::Tensor& actual, const torch::Tensor& expected) {
  REQUIRE(actual.sizes() == expected.sizes());
  const torch::Tensor exact = expected.detach().to(torch::kCPU, torch::kFloat64);
  return ((actual.detach().to(torch::kCPU, torch::kFloat64) - exact).norm() / (exact.norm() + 1e-30)).item<double>();
}

// Outputs of all sizes, the last one not read.
inline const std::vector<std::int64_t> kOutputs = {24, 3, 16, 9, 8};

inline std::vector<torch::nn::Linear> make_maps(std::int64_t inputs, bool biases) {
  std::vector<torch::nn::Linear> maps;
  for (const std::int64_t outputs : kOutputs) {
    maps.emplace_back(torch::nn::LinearOptions(inputs, outputs).bias(biases && outputs != 16));
    const torch::NoGradGuard no_grad;
    for (const torch::Tensor& parameter : maps.back()->parameters()) parameter.copy_(parameter.to(torch::kBFloat16));
  }
  return maps;
}

// What was made of x: the outputs that are read, then the gradients of x and of the parameters.
inline std::vector<torch::Tensor> learnt(const std::vector<torch::Tensor>& outputs, const torch::Tensor& x,
                                         const std::vector<torch::nn::Linear>& maps) {
  torch::Tensor loss = torch::zeros({}, x.options().dtype(torch::kFloat32).requires_grad(false));
  std::vector<torch::Tensor> all;
  for (std::size_t i = 0; i + 1 < outputs.size(); ++i) {
    loss = loss + (outputs[i].to(torch::kFloat64).sin() * static_cast<double>(i + 1)).sum();
    all.push_back(outputs[i]);
  }
  std::vector<torch::Tensor> wanted{x};
  for (std::size_t i = 0; i + 1 < maps.size(); ++i)
    for (const torch::Tensor& parameter : maps[i]->parameters()) wanted.push_back(parameter);
  for (const torch::Tensor& gradient : torch::autograd::grad({loss}, wanted)) all.push_back(gradient);
  return all;
}

inline void check(const std::vector<torch::Tensor>& actual, const std::vector<torch::Tensor>& expected, double bound) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(actual[i], expected[i]) < bound);
  }
}

inline torch::Tensor draw(const std::vector<std::int64_t>& shape, torch::Device device, torch::ScalarType dtype) {
  return torch::randn(shape).to(torch::kBFloat16).to(device, dtype).requires_grad_();
}

}  // namespace engram::testing
