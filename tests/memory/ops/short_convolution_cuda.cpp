// A short convolution on a GPU against LibTorch's operations in double precision on the CPU.
#include "memory/ops/short_convolution_cuda.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu.h"
#include "tests/memory/support.h"

using namespace engram;
using engram::testing::skip_without_gpu;
using torch::Tensor;

namespace {

constexpr std::int64_t kRows = 3, kSteps = 70, kChannels = 50;

Tensor in_double(const Tensor& x) { return x.detach().to(torch::kCPU, torch::kFloat64); }

// The convolution `of`, of numbers drawn alike each time, on `device` with x in `type`: output, last state, and the
// gradients of a loss of both by x, the state and the parameters.
std::vector<Tensor> learnt(ShortConvolution& of, torch::Device device, torch::ScalarType type) {
  torch::manual_seed(2);
  const torch::ScalarType other = device.is_cuda() ? torch::kFloat32 : torch::kFloat64;
  // Rounded to bfloat16 in all of them, so that all begin from the same numbers.
  const auto drawn = [&](std::int64_t steps) {
    return torch::randn({kRows, steps, kChannels}).to(torch::kBFloat16).to(torch::kFloat64);
  };
  const Tensor x_BTC = drawn(kSteps).to(device, type).requires_grad_(),
               state_BSC = drawn(3).to(device, other).requires_grad_(), of_output = drawn(kSteps).to(device, other),
               of_state = drawn(3).to(device, other);
  const Tensor lengths_B = lengths({kSteps, 0, 29}).to(device);
  const auto [output_BTC, last_BSC] = of.forward(x_BTC, state_BSC, lengths_B);
  std::vector<Tensor> inputs{x_BTC, state_BSC};
  for (const Tensor& parameter : of.parameters()) inputs.push_back(parameter);
  std::vector<Tensor> all =
      torch::autograd::grad({(output_BTC * of_output).sum() + (last_BSC * of_state).sum()}, inputs);
  all.push_back(output_BTC), all.push_back(last_BSC);
  return all;
}

cuda::ShortConvolutionTensors given(std::int64_t width) {
  const auto floats = torch::TensorOptions(torch::kCUDA);
  return {torch::zeros({2, 5, 4}, floats), torch::zeros({2, width - 1, 4}, floats), torch::zeros({4, width}, floats),
          torch::zeros({4}, floats), lengths({5, 5}).to(torch::kCUDA)};
}

std::string reason(const cuda::ShortConvolutionTensors& in) {
  const std::string text = cuda::supports_short_convolution(in).reason();
  if (!text.empty()) CHECK_THROWS_AS(cuda::short_convolution(in), c10::Error);
  return text;
}

}  // namespace

TEST_CASE("a short convolution on a GPU and its gradients are those in double precision") {
  if (skip_without_gpu()) return;
  for (const bool bias : {false, true})
    for (const torch::ScalarType type : {torch::kFloat32, torch::kBFloat16}) {
      CAPTURE(bias);
      CAPTURE(type);
      torch::manual_seed(1);
      ShortConvolution on_gpu(kChannels, 4, bias), definition(kChannels, 4, bias);
      definition.to(torch::kFloat64);
      {
        const torch::NoGradGuard no_grad;
        const auto from = on_gpu.parameters(), to = definition.parameters();
        for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
      }
      on_gpu.to(torch::kCUDA);
      const std::vector<Tensor> expected = learnt(definition, torch::kCPU, torch::kFloat64);
      const std::vector<Tensor> actual = learnt(on_gpu, torch::kCUDA, type);
      REQUIRE(actual.size() == expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        const bool rounds = type == torch::kBFloat16 && i == 0;  // the gradient of x has its type
        CHECK(relative_error(in_double(actual[i]), expected[i]) < (rounds ? std::ldexp(1, -8) : 1e-5));
      }
    }
}

TEST_CASE("a short convolution on a GPU says what it does not take") {
  if (skip_without_gpu()) return;
  cuda::ShortConvolutionTensors taken = given(4);
  CHECK(reason(taken) == "");
  taken.bias_C = Tensor();
  CHECK(reason(taken) == "");
  taken.state_BSC = taken.state_BSC.to(torch::kBFloat16);
  CHECK(reason(taken) == "state, weight and bias are not in float32 on the GPU of x");
  taken = given(4);
  taken.lengths_B = taken.lengths_B.cpu();
  CHECK(reason(taken) == "the lengths are not int64 on the GPU of x");
  taken = given(4);
  taken.x_BTC = taken.x_BTC.to(torch::kFloat64);
  CHECK(reason(taken) == "x is not in float32 or bfloat16 on a GPU");
  CHECK(reason(given(3)) ==
        "x [2, 5, 4], state [2, 2, 4], weight [4, 3] and lengths [2] are not [B, T, C], [B, 3, C], [C, 4] and [B]");
}
