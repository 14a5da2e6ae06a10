// Delta rule and attention on the CPU in float32 against LibTorch's operations in double precision (memory/ops/ops.h).
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "memory/ops/ops.h"
#include "nn/layers/dropout.h"
#include "tests/memory/ops/delta_rule.h"

using namespace engram;
using torch::Tensor;

namespace {

// Greatest one, relative to the greatest number, but to no less than 1: some gradients sum up to nothing.
double difference(const Tensor& actual, const Tensor& expected) {
  return ((actual.to(torch::kFloat64) - expected).abs().max() / expected.abs().max().clamp_min(1)).item<double>();
}

using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

// Outputs and gradients in float32 must be those in double precision.
void check(const std::vector<Tensor>& inputs, const Function& function) {
  const auto run = [&](torch::ScalarType dtype) {
    std::vector<Tensor> leaves;
    for (const Tensor& x : inputs) leaves.push_back(x.to(dtype).clone().requires_grad_());
    std::vector<Tensor> outputs = function(leaves);
    torch::manual_seed(7);
    Tensor loss = torch::zeros({}, dtype);
    for (const Tensor& output : outputs) loss = loss + (output * torch::randn(output.sizes()).to(dtype)).sum();
    loss.backward();
    for (const Tensor& leaf : leaves)
      if (leaf.grad().defined()) outputs.push_back(leaf.grad());
    return outputs;
  };
  const std::vector<Tensor> actual = run(torch::kFloat32), expected = run(torch::kFloat64);
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    CHECK(difference(actual[i], expected[i]) < 2e-5);
  }
}

}  // namespace

TEST_CASE("the delta rule in float32 is that in double precision, from a state on, over rows of different lengths") {
  torch::manual_seed(1);
  for (const auto& [steps, key_width, value_width] :
       std::vector<std::array<std::int64_t, 3>>{{1, 4, 4}, {32, 16, 32}, {33, 5, 20}, {150, 24, 7}}) {
    CAPTURE(steps);
    const std::int64_t batch = 3, heads = 2;
    const Tensor lengths = torch::tensor({steps, (steps + 1) / 2, std::int64_t{1}});
    check({torch::randn({batch, steps, heads, key_width}), torch::randn({batch, steps, heads, key_width}),
           torch::randn({batch, steps, heads, value_width}), torch::rand({batch, steps, heads}),
           torch::randn({batch, heads, key_width, value_width})},
          [&](const auto& in) -> std::vector<Tensor> {
            const FastWeightResult out =
                delta_rule(l2_normalize(in[0]), l2_normalize(in[1]), in[2], 1.5 * in[3], in[4], lengths);
            return {out.output_BTHV, out.state.weights_BHKV};
          });
  }
}

TEST_CASE("attention in float32 is that in double precision, whatever the window, with and without dropped weights") {
  struct Module : torch::nn::Module {
    std::shared_ptr<Dropout> dropout = register_module("dropout", std::make_shared<Dropout>(0.3));
  } module;
  const auto clock = seed_dropout(module, 11);
  clock->tick();
  torch::manual_seed(2);
  for (const std::int64_t steps : {1, 60, 61, 200})
    for (const std::int64_t window : {1, 5, 64, 200}) {
      CAPTURE(steps);
      CAPTURE(window);
      const std::int64_t batch = 2, heads = 3, width = 10;
      const Tensor position = torch::zeros({batch}, torch::kInt64), lengths = torch::tensor({steps, steps});
      std::vector<Tensor> inputs;
      for (int i = 0; i < 3; ++i) inputs.push_back(2 * torch::randn({batch, steps, heads, width}));
      for (const bool drops : {false, true}) {
        if (drops && window < steps) continue;  // weights of one block alone are dropped
        CAPTURE(drops);
        check(inputs, [&](const auto& in) -> std::vector<Tensor> {
          const Tensor ring = torch::zeros({batch, window, heads, width}, in[0].options());
          const WindowPlan plan(window, steps, 0, position, lengths, in[0].scalar_type());
          return {plan.attend(in[0], in[1], in[2], {ring, ring}, drops ? module.dropout.get() : nullptr).output_BTHV};
        });
      }
    }
}
