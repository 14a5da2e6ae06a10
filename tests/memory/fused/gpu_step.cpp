// step() on a GPU: by the kernels' attention and delta rule, and by steps of kernels alone, against the CPU in double
// precision, and captured in a graph.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memory/core/sequence_model.h"
#include "memory/ops/ops_cuda.h"
#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"
#include "tests/gpu.h"
#include "tests/memory/ops/delta_rule.h"
#include "tests/memory/support.h"

using namespace engram;
using engram::testing::skip_without_gpu;
using torch::Tensor;

namespace {

constexpr int kSteps = 90;
constexpr std::int64_t kRows = 5;

// Heads of 50, of 16, and of 3, which the kernels do not take: there LibTorch's operations do the step.
const std::vector<Variant> kVariants = {
    {"transformer", {{"width", "100"}, {"layers", "2"}}},
    {"transformer", {{"width", "32"}, {"layers", "1"}}},
    {"transformer", {{"width", "12"}, {"heads", "4"}}},
    {"transformer", {{"width", "32"}, {"dropout", "0.3"}}},
    {"transformer", {{"width", "12"}, {"heads", "4"}, {"dropout", "0.3"}}},
    {"deltanet", {{"width", "100"}, {"layers", "2"}}},
    {"deltanet", {{"width", "32"}, {"dropout", "0.3"}}},
    {"deltanet", {{"width", "12"}, {"heads", "4"}}},
    {"fast_weights", {{"width", "32"}, {"dropout", "0.3"}}},
    {"performer", {{"width", "32"}, {"layers", "1"}, {"favor_features", "8"}}},
    {"delta_2021", {{"width", "32"}, {"layers", "1"}}},
    {"gated_deltanet", {{"width", "100"}, {"dropout", "0.3"}}},
    {"retnet", {{"width", "32"}}},
    {"fast_weights", {{"width", "32"}, {"rule", "gated_sum"}, {"beta_factor", "1"}}},
    {"hqlt", {{"width", "32"}, {"window", "7"}, {"fast_weights", "mamba2"}}},
    {"gla", {{"width", "100"}}},
    {"delta_product", {{"width", "100"}}},
    {"kda", {{"width", "32"}}},
    {"mamba2", {{"width", "32"}}},
    {"mlstm", {{"width", "32"}}},
    {"hqlt", {{"width", "100"}, {"window", "64"}}},
    {"hqlt", {{"width", "32"}, {"window", "7"}, {"mixing", "scalar"}, {"dropout", "0.3"}}},
    {"hqlt", {{"width", "32"}, {"window", "7"}, {"branch_norm", "true"}}},
    {"hqlt", {{"width", "32"}, {"window", "7"}, {"output_gate", "true"}}},
    {"hqlt_delayed_stream", {{"width", "100"}, {"window", "16"}}},
    {"hqlt_delayed_stream", {{"width", "32"}, {"window", "7"}, {"mixing", "scalar"}, {"dropout", "0.3"}}},
    {"hqlt_delayed_chunk", {{"width", "100"}, {"window", "16"}}},
    {"hqlt_delayed_chunk", {{"width", "32"}, {"window", "7"}, {"mixing", "scalar"}, {"dropout", "0.3"}}},
};

// Whose steps are made of kernels of their own: every way of mixing, with and without RoPE, windows of one step, of
// more than a tile of the kernel and of more than an episode, and heads of 100 channels.
const std::vector<Variant> kDelayedVariants = [] {
  std::vector<Variant> variants;
  for (const std::string backbone : {"hqlt_delayed_stream", "hqlt_delayed_chunk"}) {
    variants.push_back({backbone, {{"width", "100"}, {"window", "16"}}});
    variants.push_back({backbone, {{"width", "32"}, {"window", "1"}, {"mixing", "sum"}, {"positions", "none"}}});
    variants.push_back({backbone, {{"width", "36"}, {"window", "17"}, {"branch_norm", "true"}, {"dropout", "0.3"}}});
    variants.push_back({backbone, {{"width", "32"}, {"window", "33"}, {"mixing", "scalar"}, {"dropout", "0.3"}}});
    variants.push_back({backbone, {{"width", "100"}, {"heads", "1"}, {"layers", "1"}, {"window", "7"}}});
    variants.push_back({backbone, {{"width", "12"}, {"heads", "1"}, {"window", "200"}, {"beta_factor", "1"}}});
    variants.push_back({backbone, {{"width", "144"}, {"heads", "4"}, {"layers", "1"}, {"window", "64"}}});
  }
  variants.push_back(
      {"stack", {{"width", "36"}, {"stack", "hqlt_delayed_chunk:window=5,hqlt_delayed_stream:window=9"}}});
  return variants;
}();

// The same of those that take each step at once: every way of mixing, decays, a sum of keys, heads whose features are
// padded otherwise than their values, a skip, gates, windows alone.
const std::vector<Variant> kKernelVariants = [] {
  std::vector<Variant> variants = kDelayedVariants;
  const std::vector<Variant> at_once = {
      {"hqlt", {{"width", "100"}, {"window", "16"}}},
      {"hqlt", {{"width", "32"}, {"window", "1"}, {"mixing", "sum"}, {"positions", "none"}}},
      {"hqlt", {{"width", "36"}, {"window", "17"}, {"branch_norm", "true"}, {"dropout", "0.3"}}},
      {"hqlt", {{"width", "32"}, {"window", "33"}, {"mixing", "scalar"}, {"dropout", "0.3"}}},
      {"hqlt", {{"width", "100"}, {"heads", "1"}, {"layers", "1"}, {"window", "7"}}},
      {"hqlt", {{"width", "32"}, {"window", "7"}, {"fast_weights", "mamba2"}}},
      {"hqlt", {{"width", "32"}, {"window", "7"}, {"fast_weights", "linear_transformer"}}},
      {"hqlt", {{"width", "32"}, {"window", "7"}, {"fast_weights", "retnet"}}},
      {"deltanet", {{"width", "100"}}},
      {"deltanet", {{"width", "36"}, {"dropout", "0.3"}}},
      {"linear_transformer", {{"width", "32"}}},
      {"linear_transformer", {{"width", "100"}, {"layers", "1"}, {"dropout", "0.3"}}},
      {"retnet", {{"width", "32"}}},
      {"fast_weights", {{"width", "32"}, {"rule", "gated_sum"}, {"beta_factor", "1"}}},
      {"fast_weights", {{"width", "32"}, {"skip", "true"}, {"output_gate", "sigmoid"}}},
      {"transformer", {{"width", "100"}}},
      {"transformer", {{"width", "32"}, {"layers", "1"}, {"dropout", "0.3"}}},
      {"stack", {{"width", "36"}, {"stack", "window:window=5,deltanet,attention:positions=none"}}},
  };
  variants.insert(variants.end(), at_once.begin(), at_once.end());
  return variants;
}();

std::vector<Variant> all_variants() {
  std::vector<Variant> all = kVariants;
  all.insert(all.end(), kKernelVariants.begin(), kKernelVariants.end());
  all.push_back({"hqlt_delayed_stream", {{"width", "6"}, {"window", "5"}, {"positions", "none"}}});  // heads of 3
  all.push_back({"hqlt_delayed_chunk", {{"width", "6"}, {"window", "5"}, {"positions", "none"}}});
  return all;
}

// The rows that begin anew before step t.
Tensor reset_rows(int t) {
  Tensor reset_B = torch::zeros({kRows}, torch::kBool);
  for (std::int64_t row = 0; row < kRows; ++row) reset_B[row] = t > 0 && t % (20 + 17 * row) == 0;
  return reset_B;
}

Tensor on_gpu(at::IntArrayRef sizes, torch::ScalarType dtype) {
  return torch::randn(sizes, torch::TensorOptions(torch::kCUDA)).to(dtype);
}

struct SeededDropout : torch::nn::Module {
  explicit SeededDropout(double probability)
      : dropout(register_module("dropout", std::make_shared<Dropout>(probability))), clock(seed_dropout(*this, 5)) {}
  std::shared_ptr<Dropout> dropout;
  std::shared_ptr<DropoutClock> clock;
};

// Of what a kernel gives to what LibTorch gives in double precision for the same input.
double error_of(const Tensor& actual, const Tensor& expected) {
  return relative_error(actual.to(torch::kCPU, torch::kFloat64), expected.to(torch::kCPU));
}

struct Models {
  std::shared_ptr<SequenceModel> reference, model;  // float64 on the CPU, float32 on the GPU
};

// The weights are numbers of `dtype`.
Models make_models(const Variant& variant, torch::ScalarType dtype) {
  torch::manual_seed(3);
  Models models{make_model(variant, kSteps, torch::kFloat64), nullptr};
  enlarge_weights(*models.reference);
  models.model = make_model(variant, kSteps, torch::kFloat32);
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < models.model->parameters().size(); ++i) {
      models.reference->parameters()[i].copy_(models.reference->parameters()[i].to(dtype));
      models.model->parameters()[i].copy_(models.reference->parameters()[i]);
    }
  }
  models.model->to(torch::kCUDA);
  return models;
}

}  // namespace

// Of bfloat16 inputs the output alone is rounded, the states are float32: 2^-8 of any element, 0.002 over many.
TEST_CASE("a GPU's step of attention equals LibTorch's, with dropout, and for types of input and ring that differ") {
  if (skip_without_gpu()) return;
  constexpr std::int64_t kHeads = 3, kWidth = 10, kSlots = 21;
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16})
    for (const double probability : {0.0, 0.3}) {
      CAPTURE(probability);
      const SeededDropout own(probability), reference(probability);
      Tensor position_B = torch::tensor({0, 3, 20, 21, 50}, torch::kInt64).to(torch::kCUDA);
      KeyValueRing ring{on_gpu({kRows, kSlots, kHeads, kWidth}, torch::kFloat32),
                        on_gpu({kRows, kSlots, kHeads, kWidth}, torch::kFloat32)};
      KeyValueRing expected_ring{ring.key_BSHK.to(torch::kCPU, torch::kFloat64),
                                 ring.value_BSHV.to(torch::kCPU, torch::kFloat64)};
      for (int step = 0; step < 30; ++step) {
        CAPTURE(step);
        own.clock->tick();
        reference.clock->tick();
        const Tensor query = on_gpu({kRows, kHeads, kWidth}, dtype), key = on_gpu({kRows, kHeads, kWidth}, dtype),
                     value = on_gpu({kRows, kHeads, kWidth}, dtype);
        REQUIRE(static_cast<bool>(cuda::supports_attention_step(query, key, value, ring)));
        const Tensor output =
            WindowStepPlan(kSlots, kSlots, position_B, dtype).attend(query, key, value, ring, own.dropout.get());
        CHECK((output.scalar_type() == dtype));
        const auto on_cpu = [](const Tensor& x) { return x.to(torch::kCPU, torch::kFloat64); };
        const Tensor expected =
            WindowStepPlan(kSlots, kSlots, position_B.cpu(), torch::kFloat64)
                .attend(on_cpu(query), on_cpu(key), on_cpu(value), expected_ring, reference.dropout.get());
        REQUIRE(error_of(output, expected) < (dtype == torch::kFloat32 ? 1e-5 : 0.004));
        position_B.add_(1);
      }
      CHECK(error_of(ring.key_BSHK, expected_ring.key_BSHK) < 1e-6);
      CHECK(error_of(ring.value_BSHV, expected_ring.value_BSHV) < 1e-6);
    }
}

TEST_CASE("a GPU's step of the delta rule equals LibTorch's, for bfloat16 beside float32 fast weights, too") {
  if (skip_without_gpu()) return;
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16})
    for (const std::int64_t width : {3, 6, 50}) {  // 3: by LibTorch's operations on the GPU
      CAPTURE(width);
      const Tensor state = on_gpu({kRows, 2, width, width}, torch::kFloat32);
      const Tensor expected_state = state.to(torch::kCPU, torch::kFloat64);
      for (int step = 0; step < 10; ++step) {
        const Tensor query = l2_normalize(on_gpu({kRows, 2, width}, dtype)),
                     key = l2_normalize(on_gpu({kRows, 2, width}, dtype)), value = on_gpu({kRows, 2, width}, dtype),
                     beta = on_gpu({kRows, 2}, dtype).sigmoid();
        CHECK(static_cast<bool>(cuda::supports_fast_weight_step(value, state)));
        CHECK(static_cast<bool>(supports_fast_weight_step({.delta = true}, 0, width, width)) == (width % 2 == 0));
        const Tensor output = delta_rule_step(query, key, value, beta, state);
        CHECK((output.scalar_type() == dtype));
        const auto on_cpu = [](const Tensor& x) { return x.to(torch::kCPU, torch::kFloat64); };
        const Tensor expected =
            delta_rule_step(on_cpu(query), on_cpu(key), on_cpu(value), on_cpu(beta), expected_state);
        REQUIRE(error_of(output, expected) < (dtype == torch::kFloat32 ? 1e-5 : 0.004));
      }
      CHECK(error_of(state, expected_state) < 1e-5);
    }
}

// Float32 rounds at 6e-8; two layers with enlarged weights amplify that a few hundred times.
TEST_CASE("steps on a GPU give what they give on the CPU, rows at different positions and dropout included") {
  if (skip_without_gpu()) return;
  for (const Variant& variant : all_variants()) {
    CAPTURE(variant.label());
    for (const bool use_kernels : {true, false}) {
      CAPTURE(use_kernels);
      const auto [reference, model] = make_models(variant, torch::kFloat32);
      if (!use_kernels && !model->supports_step(torch::kFloat32, torch::kCUDA) &&
          !model->supports_step_blocks(torch::kFloat32, torch::kCUDA))
        continue;  // the same again
      const auto reference_clock = seed_dropout(*reference, 4), clock = seed_dropout(*model, 4);
      MemoryState expected_state = reference->initial_state(kRows), state = model->initial_state(kRows);
      for (int t = 0; t < kSteps; ++t) {
        CAPTURE(t);
        reference_clock->tick();
        clock->tick();
        expected_state.reset_rows(reset_rows(t));
        state.reset_rows(reset_rows(t).to(torch::kCUDA));
        const Tensor input = torch::randn({kRows, reference->width()});
        const Tensor expected = reference->step(input.to(torch::kFloat64), expected_state);
        const PlainOperations plain(!use_kernels);
        const Tensor output = model->step(input.to(torch::kCUDA), state);
        CHECK((output.scalar_type() == torch::kFloat32));
        REQUIRE(relative_error(output.to(torch::kCPU, torch::kFloat64), expected) < 1e-4);
      }
      for (std::size_t i = 0; i < state.tensors.size(); ++i)
        CHECK(relative_error(state.tensors[i].to(torch::kCPU, torch::kFloat64),
                             expected_state.tensors[i].to(torch::kFloat64)) < 1e-4);
    }
  }
}

// Outputs over all steps, and what is remembered in the end. The kernels also round x between two branches, which
// LibTorch's operations keep in float32: some half more roundings, and chance.
constexpr double kBoundOfLibTorch = 2;

TEST_CASE("steps by kernels in bfloat16 are as near to the definition as LibTorch's, memory included") {
  if (skip_without_gpu()) return;
  for (const Variant& variant : kKernelVariants) {
    CAPTURE(variant.label());
    const auto [reference, model] = make_models(variant, torch::kBFloat16);
    REQUIRE(static_cast<bool>(model->supports_step(torch::kBFloat16, torch::kCUDA)));
    const auto reference_clock = seed_dropout(*reference, 4), clock = seed_dropout(*model, 4);
    MemoryState expected_state = reference->initial_state(kRows);
    MemoryState states[2] = {model->initial_state(kRows), model->initial_state(kRows)};
    double squares = 0, errors[2] = {};
    for (int t = 0; t < kSteps; ++t) {
      reference_clock->tick();
      clock->tick();
      expected_state.reset_rows(reset_rows(t));
      const Tensor input = torch::randn({kRows, reference->width()});
      const Tensor expected = reference->step(input.to(torch::kFloat64), expected_state);
      squares += expected.square().sum().item<double>();
      for (const bool use_kernels : {false, true}) {
        states[use_kernels].reset_rows(reset_rows(t).to(torch::kCUDA));
        const ComputeIn products(torch::kCUDA, torch::kBFloat16);
        const PlainOperations plain(!use_kernels);
        const Tensor output = model->step(input.to(torch::kCUDA), states[use_kernels]);
        CHECK((output.scalar_type() == torch::kFloat32));
        errors[use_kernels] += (output.to(torch::kCPU, torch::kFloat64) - expected).square().sum().item<double>();
      }
    }
    CHECK(std::sqrt(errors[1] / squares) < kBoundOfLibTorch * std::sqrt(errors[0] / squares));
    CHECK(std::sqrt(errors[1] / squares) > 1e-5);  // float32 would be nearer
    for (std::size_t i = 0; i < expected_state.tensors.size(); ++i) {
      CAPTURE(i);
      if (!expected_state.tensors[i].is_floating_point()) {
        CHECK(torch::equal(states[1].tensors[i].cpu(), expected_state.tensors[i]));
        continue;
      }
      CHECK((states[1].tensors[i].scalar_type() == torch::kFloat32));
      const Tensor& expected = expected_state.tensors[i];
      const auto error = [&](const MemoryState& state) {
        return ((state.tensors[i].to(torch::kCPU, torch::kFloat64) - expected).norm() / (expected.norm() + 1e-30))
            .item<double>();
      };
      CHECK(error(states[1]) < kBoundOfLibTorch * error(states[0]) + 1e-6);
    }
  }
}

TEST_CASE("a step that a graph replays gives the same bits as one that is launched") {
  if (skip_without_gpu()) return;
  for (const Variant& variant : all_variants()) {
    CAPTURE(variant.label());
    torch::manual_seed(4);
    const auto model = make_model(variant, kSteps, torch::kFloat32);
    model->to(torch::kCUDA);
    const auto clock = seed_dropout(*model, 4);
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    MemoryState state = model->initial_state(kRows), captured_state = model->initial_state(kRows);
    const Tensor input = torch::zeros({kRows, model->width()}, torch::kCUDA);
    model->step(input, captured_state);  // libraries make their workspaces
    captured_state.reset_rows(torch::ones({kRows}, torch::kBool).to(torch::kCUDA));
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    const Tensor captured_output = model->step(input, captured_state);
    graph.capture_end();
    for (int t = 0; t < kSteps; ++t) {
      CAPTURE(t);
      clock->tick();
      Tensor(input).normal_();
      const Tensor output = model->step(input, state);
      graph.replay();
      REQUIRE(torch::equal(captured_output, output));
    }
    for (std::size_t i = 0; i < state.tensors.size(); ++i)
      CHECK(torch::equal(captured_state.tensors[i], state.tensors[i]));
  }
}
