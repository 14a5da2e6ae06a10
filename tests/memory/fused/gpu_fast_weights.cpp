// Fast weights by the kernels on a GPU: the rules that they take, against LibTorch's operations on the CPU in double
// precision.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memory/ops/fast_weight_ops.h"
#include "memory/ops/ops_cuda.h"
#include "nn/device/autocast.h"
#include "tests/gpu.h"
#include "tests/memory/support.h"

using namespace engram;
using engram::testing::skip_without_gpu;
using torch::Tensor;

namespace {

constexpr std::int64_t kBatch = 4, kSteps = 150, kHeads = 2;

struct Setting {
  FastWeightRule rule;
  std::int64_t decay_channels, key_width, value_width;

  std::string name() const {
    return std::string(rule.delta ? "delta" : "sum") + " norm " +
           std::to_string(static_cast<int>(rule.attention_norm)) + (rule.log_write ? " log write" : "") + " decays " +
           std::to_string(decay_channels) + " of " + std::to_string(key_width) + " x " + std::to_string(value_width);
  }
};

// Every rule without a decay, with one and, where it takes that, with one for each channel; keys as wide as values,
// wider (DPFP, FAVOR+) and of an odd width.
std::vector<Setting> settings() {
  const std::vector<std::pair<std::int64_t, std::int64_t>> widths{{50, 50}, {100, 50}, {128, 50}, {9, 9}, {64, 64}};
  std::vector<Setting> all;
  for (const FastWeightRule& rule : {FastWeightRule{true},
                                     FastWeightRule{false},
                                     {false, AttentionNorm::kSum},
                                     {false, AttentionNorm::kAtLeastOne},
                                     {false, AttentionNorm::kAtLeastOne, /*log_write=*/true}})
    for (const auto& [keys, values] : widths) {
      for (const std::int64_t decay_channels : {0, 1}) all.push_back({rule, decay_channels, keys, values});
      if (rule.attention_norm == AttentionNorm::kNone) all.push_back({rule, keys, keys, values});
    }
  return all;
}

// Of positive features, which a sum of keys needs, and strong ones that almost cancel would not show a kernel's errors.
// Rounded to `dtype`.
FastWeightInput random_input(const Setting& s, torch::ScalarType dtype, std::vector<std::int64_t> leading) {
  const auto random = [&](std::int64_t width) {
    std::vector<std::int64_t> shape = leading;
    shape.push_back(kHeads);
    if (width > 0) shape.push_back(width);
    return torch::randn(shape, torch::kFloat64);
  };
  const auto unit = [](const Tensor& x) { return x / x.norm(2, {-1}, /*keepdim=*/true); };
  const auto rounded = [&](const Tensor& x) { return x.to(dtype).to(torch::kFloat64); };
  const bool positive = s.rule.attention_norm == AttentionNorm::kSum || s.rule.log_write;
  FastWeightInput in;
  in.query = rounded(unit(random(s.key_width).abs() + 0.1));
  in.key = rounded(unit(positive ? random(s.key_width).abs() : random(s.key_width)));
  in.value = rounded(random(s.value_width));
  // Apart from where the two sides of the norm's maximum meet, whose gradients differ: one head is beyond it, one
  // below.
  in.write = rounded(s.rule.log_write ? random(0) + torch::tensor({8.0, -4.5}, torch::kFloat64)
                                      : 2 * torch::sigmoid(random(0)));
  if (s.decay_channels > 0)
    in.log_decay = (-0.2 * torch::rand_like(random(s.decay_channels))).to(torch::kFloat32).to(torch::kFloat64);
  return in;
}

FastWeightInput on_gpu(const FastWeightInput& in, torch::ScalarType dtype) {
  const auto moved = [&](const Tensor& x) { return x.to(torch::kCUDA, dtype); };
  return {moved(in.query), moved(in.key), moved(in.value), moved(in.write),
          in.log_decay.defined() ? in.log_decay.to(torch::kCUDA, torch::kFloat32) : in.log_decay};
}

std::vector<Tensor> leaves(const FastWeightInput& in) {
  std::vector<Tensor> all{in.query, in.key, in.value, in.write};
  if (in.log_decay.defined()) all.push_back(in.log_decay);
  for (Tensor& x : all) x.requires_grad_();
  return all;
}

FastWeightState zeros(const Setting& s, std::int64_t rows) {
  return {torch::zeros({rows, kHeads, s.key_width, s.value_width}, torch::kFloat64),
          s.rule.attention_norm == AttentionNorm::kNone ? Tensor()
                                                        : torch::zeros({rows, kHeads, s.key_width}, torch::kFloat64),
          s.rule.log_write ? torch::zeros({rows, kHeads}, torch::kFloat64) : Tensor()};
}

double error_of(const Tensor& actual, const Tensor& expected) {
  const Tensor difference = actual.detach().to(torch::kCPU, torch::kFloat64) - expected.detach();
  return (difference.norm() / expected.detach().norm()).item<double>();
}

}  // namespace

// As the contract of kernels/fast_weights/delta_rule promises. A decay's gradient is a difference of large sums, and so
// are all gradients of what an attention norm divides.
TEST_CASE("fast weights by a GPU's kernels equal LibTorch's, with their gradients") {
  if (skip_without_gpu()) return;
  torch::manual_seed(13);
  const Tensor lengths_B = lengths({kSteps, 67, 0, 1});
  const Tensor valid = (torch::arange(kSteps) < lengths_B.unsqueeze(1)).unsqueeze(2).unsqueeze(3);
  for (const Setting& s : settings())
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
      CAPTURE(s.name());
      CAPTURE(static_cast<int>(dtype));
      const FastWeightInput in = random_input(s, dtype, {kBatch, kSteps}), own = on_gpu(in, dtype);
      const std::vector<Tensor> expected_leaves = leaves(in), own_leaves = leaves(own);
      const Tensor weight =
          torch::randn({kBatch, kSteps, kHeads, s.value_width}, torch::kFloat64).to(dtype).to(torch::kFloat64) * valid;
      REQUIRE(static_cast<bool>(supports_fresh_fast_weights(s.rule, own)));
      const Tensor expected = fast_weights(s.rule, in, zeros(s, kBatch), lengths_B).output_BTHV * valid;
      const Tensor output = fresh_fast_weights(s.rule, own, lengths_B.to(torch::kCUDA));
      CHECK((output.scalar_type() == dtype));
      const bool single = dtype == torch::kFloat32;
      CHECK(error_of(output * valid.to(torch::kCUDA), expected) < (single ? 2e-5 : 0.01));
      const auto wanted = torch::autograd::grad({(expected * weight).sum()}, expected_leaves);
      const auto got = torch::autograd::grad({output}, own_leaves, {weight.to(torch::kCUDA, dtype)});
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        CAPTURE(i);
        CHECK((got[i].scalar_type() == own_leaves[i].scalar_type()));
        CHECK(error_of(got[i], wanted[i]) < (single ? 2e-4 : 0.03));
      }
    }
}

TEST_CASE("fast weights are in the type of products around them") {
  if (skip_without_gpu()) return;
  torch::manual_seed(14);
  const Setting s{{true}, 1, 50, 50};
  const FastWeightInput in = on_gpu(random_input(s, torch::kBFloat16, {kBatch, kSteps}), torch::kFloat32);
  const Tensor lengths_B = torch::full({kBatch}, kSteps, torch::kInt64).to(torch::kCUDA);
  const Tensor single = fresh_fast_weights(s.rule, in, lengths_B);
  const ComputeIn products(torch::kCUDA, torch::kBFloat16);
  const Tensor half = fresh_fast_weights(s.rule, in, lengths_B);
  CHECK((half.scalar_type() == torch::kFloat32));
  const double error = error_of(half, single.to(torch::kCPU, torch::kFloat64));
  CHECK(error > 1e-4);
  CHECK(error < 0.01);
  CHECK_FALSE(static_cast<bool>(supports_fresh_fast_weights(s.rule, random_input(s, torch::kFloat32, {kBatch, 1}))));
}

TEST_CASE("a GPU's step of fast weights equals LibTorch's, whatever the types of its inputs") {
  if (skip_without_gpu()) return;
  torch::manual_seed(15);
  for (const Setting& s : settings())
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
      CAPTURE(s.name());
      FastWeightState expected_state = zeros(s, kBatch), state;
      expected_state.weights_BHKV.normal_();
      state.weights_BHKV = expected_state.weights_BHKV.to(torch::kCUDA, torch::kFloat32);
      if (expected_state.key_sum_BHK.defined())
        state.key_sum_BHK = expected_state.key_sum_BHK.to(torch::kCUDA, torch::kFloat32);
      if (expected_state.log_scale_BH.defined())
        state.log_scale_BH = expected_state.log_scale_BH.to(torch::kCUDA, torch::kFloat32);
      for (int step = 0; step < 10; ++step) {
        const FastWeightInput in = random_input(s, dtype, {kBatch});
        FastWeightInput own = on_gpu(in, dtype);
        if (step % 2 == 1) own.write = own.write.to(torch::kFloat32);
        const Tensor output = fast_weight_step(s.rule, own, state);
        CHECK((output.scalar_type() == dtype));
        const Tensor expected = fast_weight_step(s.rule, in, expected_state);
        REQUIRE(error_of(output, expected) < (dtype == torch::kFloat32 ? 1e-5 : 0.004));
      }
      CHECK(error_of(state.weights_BHKV, expected_state.weights_BHKV) < 1e-5);
    }
}
