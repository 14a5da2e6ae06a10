// Learning and acting in bfloat16 on LibTorch's operations, alone or as mixers of fused blocks: every backbone, also at
// sizes that no kernel takes, against the CPU in double precision, and captured in a graph.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/core/sequence_model.h"
#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"
#include "tests/gpu.h"
#include "tests/memory/support.h"
#include "tests/rms_error.h"

using namespace engram;
using engram::testing::rms_error;
using engram::testing::skip_without_gpu;
using torch::Tensor;

namespace {

constexpr std::int64_t kSteps = 70;
const std::vector<std::int64_t> kLengths = {70, 33, 1, 0};

// Odd head widths, more channels a head than a kernel takes, and each way of mixing; then widths whose maps and norms
// kernels take.
const std::vector<Variant> kVariants = {
    {"transformer", {{"width", "26"}, {"layers", "2"}, {"mlp_width", "37"}}},
    {"transformer", {{"width", "260"}, {"heads", "2"}, {"layers", "1"}}},
    {"deltanet", {{"width", "22"}, {"layers", "2"}}},
    {"deltanet", {{"width", "260"}, {"heads", "2"}, {"layers", "1"}}},
    {"hqlt", {{"width", "260"}, {"heads", "2"}, {"layers", "1"}, {"window", "7"}}},
    {"hqlt", {{"width", "36"}, {"layers", "2"}, {"mixing", "scalar"}, {"positions", "none"}}},
    {"hqlt", {{"width", "36"}, {"layers", "2"}, {"mixing", "sum"}}},
    {"hqlt", {{"width", "36"}, {"layers", "2"}, {"branch_norm", "true"}}},
    {"hqlt_delayed_stream", {{"width", "36"}, {"layers", "2"}, {"window", "7"}}},
    {"hqlt_delayed_stream", {{"width", "26"}, {"window", "200"}, {"positions", "none"}}},
    {"hqlt_delayed_chunk", {{"width", "36"}, {"layers", "2"}, {"window", "7"}}},
    {"hqlt_delayed_chunk", {{"width", "26"}, {"window", "200"}, {"mixing", "sum"}, {"positions", "none"}}},
    {"fast_weights", {{"width", "36"}, {"layers", "2"}}},
    {"linear_transformer", {{"width", "36"}, {"layers", "2"}}},
    {"linear_transformer", {{"width", "260"}, {"heads", "2"}, {"layers", "1"}}},
    {"performer", {{"width", "36"}, {"layers", "2"}, {"favor_features", "16"}}},
    {"delta_2021", {{"width", "36"}, {"layers", "2"}}},
    {"gated_deltanet", {{"width", "36"}, {"layers", "2"}}},
    {"delta_product", {{"width", "36"}, {"layers", "2"}}},
    {"delta_product", {{"width", "36"}, {"layers", "2"}, {"householder_steps", "3"}, {"decay", "scalar"}}},
    {"kda", {{"width", "36"}, {"layers", "2"}}},
    {"retnet", {{"width", "36"}, {"layers", "2"}}},
    {"fast_weights", {{"width", "36"}, {"layers", "2"}, {"rule", "gated_sum"}, {"beta_factor", "1"}}},
    {"hqlt", {{"width", "36"}, {"layers", "2"}, {"fast_weights", "gated_deltanet"}}},
    {"hqlt", {{"width", "36"}, {"layers", "2"}, {"fast_weights", "mlstm"}}},
    {"gla", {{"width", "36"}, {"layers", "2"}}},
    {"mamba2", {{"width", "36"}, {"layers", "2"}}},
    {"mlstm", {{"width", "36"}, {"layers", "2"}}},
    {"lstm", {{"width", "37"}, {"layers", "2"}}},
    {"gru", {{"width", "37"}, {"layers", "2"}}},
    {"none", {{"width", "37"}, {"layers", "2"}}},
    {"rnn", {{"width", "37"}, {"layers", "2"}}},
    {"ind_rnn", {{"width", "37"}, {"layers", "2"}}},
    {"lmu", {{"width", "37"}, {"memory_width", "21"}}},
    {"frame_stack", {{"width", "37"}}},
    // All blocks are retrieved: between blocks of almost equal scores rounding would choose.
    {"expansion_span", {{"width", "36"}, {"layers", "2"}, {"chunk", "20"}, {"block", "10"}}},
    {"stack", {{"width", "36"}, {"stack", "shifted_sparse:group=6,window:window=7"}}},
    {"gtrxl", {{"width", "26"}, {"layers", "2"}, {"window", "7"}}},
    {"ffm", {{"width", "37"}}},
    {"shm", {{"width", "37"}, {"memory_width", "8"}}},
    {"slstm", {{"width", "26"}, {"layers", "2"}}},
    {"min_gru", {{"width", "37"}, {"layers", "2"}}},
    {"lru", {{"width", "37"}, {"layers", "2"}, {"state_width", "21"}}},
    {"s5", {{"width", "37"}, {"layers", "2"}, {"state_width", "21"}}},
    {"rg_lru", {{"width", "37"}, {"layers", "2"}}},
    {"transformer", {{"width", "64"}, {"layers", "2"}}},
    {"hqlt", {{"width", "64"}, {"layers", "2"}, {"fast_weights", "gated_deltanet"}}},
    {"hqlt_delayed_stream", {{"width", "64"}, {"layers", "2"}, {"window", "7"}}},
    {"hqlt_delayed_chunk", {{"width", "64"}, {"layers", "2"}, {"window", "7"}}},
    {"hqlt_delayed_chunk", {{"width", "64"}, {"layers", "2"}, {"window", "64"}, {"mixing", "scalar"}}},
    {"gla", {{"width", "64"}, {"layers", "2"}}},
    {"delta_product", {{"width", "64"}, {"layers", "2"}}},
    {"kda", {{"width", "64"}, {"layers", "2"}}},
    {"expansion_span", {{"width", "64"}, {"layers", "2"}, {"chunk", "20"}, {"block", "10"}}},
    {"stack", {{"width", "64"}, {"stack", "shifted_sparse:group=6,window:window=7"}}},
    {"gtrxl", {{"width", "64"}, {"layers", "2"}, {"window", "7"}}},
    {"ffm", {{"width", "64"}}},
    {"slstm", {{"width", "64"}, {"layers", "2"}}},
    {"min_gru", {{"width", "64"}, {"layers", "2"}}},
    {"lru", {{"width", "64"}, {"layers", "2"}}},
    {"s5", {{"width", "64"}, {"layers", "2"}, {"state_width", "24"}}},
    {"rg_lru", {{"width", "64"}, {"layers", "2"}}},
    {"none", {{"width", "64"}, {"layers", "2"}}},
    {"frame_stack", {{"width", "64"}, {"frames", "3"}}},
    {"rnn", {{"width", "64"}, {"layers", "2"}}},
    {"lmu", {{"width", "64"}}},
    {"gru", {{"width", "64"}, {"layers", "2"}}},
    {"lstm", {{"width", "64"}, {"layers", "2"}}},
};

struct Models {
  std::shared_ptr<SequenceModel> reference, model;  // float64 on the CPU, float32 on the GPU
};

// The weights are those that products in bfloat16 see.
Models make_models(const Variant& variant) {
  torch::manual_seed(8);
  Models models{make_model(variant, kSteps, torch::kFloat64), make_model(variant, kSteps, torch::kFloat32)};
  enlarge_weights(*models.reference);
  const torch::NoGradGuard no_grad;
  const auto from = models.reference->parameters(), to = models.model->parameters();
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i].copy_(from[i].to(torch::kBFloat16));
    to[i].copy_(from[i]);
  }
  models.model->to(torch::kCUDA);
  return models;
}

struct Learnt {
  Tensor output_BTD, input_BTD;
  std::vector<Tensor> parameters;  // undefined for those that are not trained
};

// Without kernels, and with those that there are: but for stacks of blocks by kernels alone, which have other tests.
std::vector<bool> uses_of_kernels(const SequenceModel& model) {
  const bool own =
      model.supports_learning(torch::kBFloat16, torch::kCUDA) && model.supports_blocks(torch::kBFloat16, torch::kCUDA);
  return own ? std::vector{false} : std::vector{false, true};
}

// Of sum(output * weight) over the valid rows.
Learnt learn(SequenceModel& model, const Tensor& input_BTD, const Tensor& weight_BTD, const Tensor& lengths_B,
             bool use_kernels) {
  const Tensor input = input_BTD.detach().clone().requires_grad_(true);
  const Tensor behind_BT1 = (torch::arange(input.size(1), lengths_B.options()) >= lengths_B.unsqueeze(1)).unsqueeze(2);
  const PlainOperations plain(!use_kernels);
  const Tensor output = model.forward_fresh(input, lengths_B).masked_fill(behind_BT1, 0);
  std::vector<Tensor> wanted{input};
  const std::vector<Tensor> parameters = model.parameters();
  std::ranges::copy_if(parameters, std::back_inserter(wanted), [](const Tensor& x) { return x.requires_grad(); });
  const std::vector<Tensor> gradients =
      torch::autograd::grad({(output.to(weight_BTD.scalar_type()) * weight_BTD).sum()}, wanted, /*grad_outputs=*/{},
                            /*retain_graph=*/std::nullopt, /*create_graph=*/false, /*allow_unused=*/true);
  Learnt learnt{output.detach(), gradients[0], {}};
  std::size_t next = 1;
  for (const Tensor& parameter : parameters)
    learnt.parameters.push_back(parameter.requires_grad() ? gradients[next++] : Tensor());
  return learnt;
}

// x with every number changed by as much as bfloat16 may round it.
Tensor as_if_rounded(const Tensor& x) { return x * (1 + torch::empty_like(x).uniform_(-1, 1) * std::pow(2.0, -9)); }

// Calls compute() a few times with weights as if rounded, which then are as before.
template <class Compute>
void with_rounded_weights(SequenceModel& model, Compute compute) {
  std::vector<Tensor> weights;
  for (const Tensor& parameter : model.parameters()) weights.push_back(parameter.detach().clone());
  const auto set = [&](bool rounded) {
    const torch::NoGradGuard no_grad;
    const std::vector<Tensor> parameters = model.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].copy_(rounded && weights[i].dim() == 2 ? as_if_rounded(weights[i]) : weights[i]);
  };
  for (int draw = 0; draw < 4; ++draw) {
    set(true);
    compute();
  }
  set(false);
}

// What may be asked of products in bfloat16 where rounding the weights and the input alone, in double precision, makes
// a difference of `sensitivity`: sums that almost cancel, as in the gradients of some decays, are lost to any of them.
double bound(double usual, double sensitivity) { return std::max(usual, 3 * sensitivity); }

struct Data {
  Tensor input_BTD, weight_BTD;
};
Data make_data(const SequenceModel& model) {
  const auto batch = static_cast<std::int64_t>(kLengths.size());
  const Tensor input = torch::randn({batch, kSteps, model.width()}).to(torch::kBFloat16).to(torch::kFloat64);
  return {input, torch::randn_like(input)};
}

}  // namespace

// bfloat16 rounds at 4e-3; some twenty products in a row through two layers with enlarged weights, and narrow heads
// that average little of it away.
TEST_CASE("by LibTorch every backbone learns in bfloat16, with parameters and their gradients in float32") {
  if (skip_without_gpu()) return;
  for (const Variant& variant : kVariants) {
    CAPTURE(variant.label());
    const Models models = make_models(variant);
    const Data data = make_data(*models.reference);
    const auto define = [&](const Tensor& input_BTD) {
      return learn(*models.reference, input_BTD, data.weight_BTD, lengths(kLengths), /*use_kernels=*/false);
    };
    const Learnt expected = define(data.input_BTD);
    std::vector<double> sensitivity(expected.parameters.size(), 0);
    double input_sensitivity = 0;
    with_rounded_weights(*models.reference, [&] {
      const Learnt rounded = define(as_if_rounded(data.input_BTD));
      input_sensitivity = std::max(input_sensitivity, rms_error(rounded.input_BTD, expected.input_BTD));
      for (std::size_t i = 0; i < sensitivity.size(); ++i)
        if (expected.parameters[i].defined())
          sensitivity[i] = std::max(sensitivity[i], rms_error(rounded.parameters[i], expected.parameters[i]));
    });
    for (const bool use_kernels : uses_of_kernels(*models.model)) {
      CAPTURE(use_kernels);
      const Learnt got =
          learn(*models.model, data.input_BTD.to(torch::kCUDA, torch::kBFloat16),
                data.weight_BTD.to(torch::kCUDA, torch::kFloat32), lengths(kLengths).to(torch::kCUDA), use_kernels);
      CHECK((got.output_BTD.scalar_type() == torch::kBFloat16));
      CHECK(rms_error(got.output_BTD, expected.output_BTD) < 0.06);
      CHECK(rms_error(got.output_BTD, expected.output_BTD) > 1e-5);  // float32 would be nearer
      CHECK(rms_error(got.input_BTD, expected.input_BTD) < bound(0.2, input_sensitivity));
      for (std::size_t i = 0; i < expected.parameters.size(); ++i) {
        const std::string name = models.model->named_parameters().keys()[i];
        CAPTURE(name);
        // Gradients that are zero but for rounding: a common factor of all write strengths e^(b + ...) divides out of
        // what mlstm answers, wherever its norm is above the bound.
        if (name.ends_with("key.bias") || name.ends_with("beta_bias")) continue;
        REQUIRE(got.parameters[i].defined() == expected.parameters[i].defined());
        if (!expected.parameters[i].defined()) continue;
        CHECK((got.parameters[i].scalar_type() == torch::kFloat32));
        CHECK(rms_error(got.parameters[i], expected.parameters[i]) < bound(0.2, sensitivity[i]));
      }
    }
  }
}

// Summation orders of LibTorch's gradients may differ from launch to launch.
TEST_CASE("a learning pass by LibTorch in bfloat16 can be captured in a graph") {
  if (skip_without_gpu()) return;
  for (const Variant& variant : kVariants) {
    CAPTURE(variant.label());
    const Models models = make_models(variant);
    const Data data = make_data(*models.reference);
    const Tensor input = data.input_BTD.to(torch::kCUDA, torch::kBFloat16);
    const Tensor weight = data.weight_BTD.to(torch::kCUDA, torch::kFloat32);
    const Tensor lengths_B = lengths(kLengths).to(torch::kCUDA);
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    for (const bool use_kernels : uses_of_kernels(*models.model)) {
      CAPTURE(use_kernels);
      const auto pass = [&] { return learn(*models.model, input, weight, lengths_B, use_kernels); };
      const Learnt launched = pass();
      pass();
      at::cuda::CUDAGraph graph;
      graph.capture_begin();
      const Learnt captured = pass();
      graph.capture_end();
      for (int replay = 0; replay < 2; ++replay) graph.replay();
      c10::cuda::getCurrentCUDAStream().synchronize();
      CHECK(rms_error(captured.output_BTD, launched.output_BTD.cpu().to(torch::kFloat64)) < 1e-3);
      for (std::size_t i = 0; i < launched.parameters.size(); ++i)
        if (launched.parameters[i].defined())
          CHECK(rms_error(captured.parameters[i], launched.parameters[i].cpu().to(torch::kFloat64)) < 0.01);
    }
  }
}

TEST_CASE("a step whose products are in bfloat16 keeps the state's type and stays near the definition") {
  if (skip_without_gpu()) return;
  constexpr std::int64_t kRows = 3;
  for (const Variant& variant : kVariants) {
    CAPTURE(variant.label());
    const Models models = make_models(variant);
    const Tensor input_TBD = torch::randn({20, kRows, models.reference->width()}, torch::kFloat64);
    const auto outputs = [&](const Tensor& inputs_TBD) {
      MemoryState state = models.reference->initial_state(kRows);
      std::vector<Tensor> all;
      for (const Tensor& input : inputs_TBD.unbind()) all.push_back(models.reference->step(input, state));
      return all;
    };
    const std::vector<Tensor> expected = outputs(input_TBD);
    std::vector<double> sensitivity(expected.size(), 0);
    with_rounded_weights(*models.reference, [&] {
      const std::vector<Tensor> rounded = outputs(as_if_rounded(input_TBD));
      for (std::size_t t = 0; t < expected.size(); ++t)
        sensitivity[t] = std::max(sensitivity[t], rms_error(rounded[t], expected[t]));
    });
    MemoryState state = models.model->initial_state(kRows);
    const MemoryState before = state.clone();
    for (std::size_t t = 0; t < expected.size(); ++t) {
      CAPTURE(t);
      const ComputeIn products(torch::kCUDA, torch::kBFloat16);
      const Tensor output =
          models.model->step(input_TBD[static_cast<std::int64_t>(t)].to(torch::kCUDA, torch::kFloat32), state);
      CHECK(rms_error(output, expected[t]) < bound(0.1, sensitivity[t]));
    }
    for (std::size_t i = 0; i < state.tensors.size(); ++i)
      CHECK((state.tensors[i].scalar_type() == before.tensors[i].scalar_type()));
  }
}
