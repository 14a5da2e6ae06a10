// Fast weights, short convolutions and attention on the CPU in float32 against LibTorch's operations in double
// precision (memory/ops/ops.h).
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "memory/ops/cpu_short_convolution.h"
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

TEST_CASE("fast weights of every rule, decay and norm in float32 are those in double precision, from a state on") {
  torch::manual_seed(4);
  struct Rule {
    FastWeightRule rule;
    std::int64_t decay_width;  // 0: nothing decays
    double decay = 0.2;        // its logarithm is -3 times this to 0
    bool fresh = false;        // from a state of nothing on
  };
  constexpr std::int64_t kKeys = 7;
  std::vector<Rule> rules;
  for (const FastWeightRule& rule : {FastWeightRule{true}, FastWeightRule{false}})
    for (const std::int64_t decay_width : {std::int64_t{0}, std::int64_t{1}, kKeys})
      rules.push_back({rule, decay_width});
  for (const AttentionNorm norm : {AttentionNorm::kSum, AttentionNorm::kAtLeastOne})
    for (const std::int64_t decay_width : {0, 1})
      for (const bool fresh : {false, true}) rules.push_back({{false, norm}, decay_width, 0.2, fresh});
  rules.push_back({{true}, kKeys, 20});  // that keeps next to nothing
  rules.push_back({{true}, 1, 0.003});   // and next to all
  for (const Rule& r : rules)
    for (const std::int64_t steps : {1, 32, 33, 100}) {
      CAPTURE(r.rule.delta);
      CAPTURE(static_cast<int>(r.rule.attention_norm));
      CAPTURE(r.decay_width);
      CAPTURE(r.fresh);
      CAPTURE(steps);
      const std::int64_t batch = 3, heads = 2, values = 20;
      const bool normed = r.rule.attention_norm != AttentionNorm::kNone;
      const Tensor lengths = torch::tensor({steps, (steps + 1) / 2, std::int64_t{1}});
      const auto random = [&](std::int64_t width) { return torch::randn({batch, steps, heads, width}); };
      std::vector<Tensor> inputs{random(kKeys), random(kKeys), random(values), torch::rand({batch, steps, heads}),
                                 torch::randn({batch, heads, kKeys, values})};
      if (normed) inputs.push_back(torch::rand({batch, heads, kKeys}) + 1);
      if (r.decay_width > 0) inputs.push_back(-3 * r.decay * torch::rand({batch, steps, heads, r.decay_width}));
      check(inputs, [&](const auto& in) -> std::vector<Tensor> {
        // A sum of keys is divided by: of features of which none is negative, half of them nothing at all, so that some
        // norms are, too.
        const auto feature = [&](const Tensor& x) { return normed ? x.clamp_min(0) : l2_normalize(x); };
        const FastWeightResult out = fast_weights(
            r.rule, {feature(in[0]), feature(in[1]), in[2], 1.5 * in[3], r.decay_width > 0 ? in.back() : Tensor()},
            {r.fresh ? 0 * in[4] : in[4],
             !normed   ? Tensor()
             : r.fresh ? 0 * in[5]
                       : in[5],
             {}},
            lengths);
        // What is behind the lengths is nothing to compare.
        const Tensor valid = (torch::arange(steps) < lengths.unsqueeze(1)).unsqueeze(2).unsqueeze(3);
        std::vector<Tensor> outputs{torch::where(valid, out.output_BTHV, 0), out.state.weights_BHKV};
        if (normed) outputs.push_back(out.state.key_sum_BHK);
        return outputs;
      });
    }
}

TEST_CASE("a short convolution in float32 is LibTorch's in double precision, of every width, with and without a bias") {
  torch::manual_seed(5);
  for (const bool bias : {false, true})
    for (const std::int64_t width : {1, 2, 4, 7})
      for (const auto& [steps, channels] :
           std::vector<std::array<std::int64_t, 2>>{{1, 1}, {2, 20}, {50, 16}, {9, 35}}) {
        CAPTURE(bias);
        CAPTURE(width);
        CAPTURE(channels);
        std::vector<Tensor> inputs{torch::randn({3, steps + width - 1, channels}), torch::randn({channels, width})};
        if (bias) inputs.push_back(torch::randn({channels}));
        check(inputs, [&](const auto& in) -> std::vector<Tensor> {
          const Tensor bias_C = bias ? in[2] : Tensor();
          if (in[0].scalar_type() == torch::kFloat32) return {cpu::short_convolution(in[0], in[1], bias_C)};
          return {torch::conv1d(in[0].transpose(1, 2), in[1].unsqueeze(1), bias_C, /*stride=*/at::IntArrayRef{1},
                                /*padding=*/at::IntArrayRef{0}, /*dilation=*/at::IntArrayRef{1}, /*groups=*/channels)
                      .transpose(1, 2)};
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
