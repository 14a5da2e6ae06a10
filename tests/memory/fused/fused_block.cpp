// Fused blocks of the published backbones and their options.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/gpu.h"
#include "tests/memory/fused/problems.h"
#include "tests/memory/support.h"

using namespace engram;
using namespace engram::testing;

namespace {

const std::vector<Variant> kVariants = {
    {"deltanet", {{"beta_factor", "1"}}},
    {"deltanet", {}},
    {"hqlt", {}},
    {"hqlt", {{"window", "7"}, {"mixing", "scalar"}, {"positions", "none"}}},
    {"hqlt", {{"window", "200"}, {"mixing", "sum"}}},
    {"hqlt", {{"branch_norm", "true"}}},
    {"hqlt", {{"branch_norm", "true"}, {"window", "7"}, {"mixing", "scalar"}}},
    {"hqlt", {{"branch_norm", "true"}, {"window", "200"}, {"mixing", "sum"}, {"positions", "none"}}},
    {"transformer", {}},
    // Hidden units that fill no vector of the kernels, and as many as the kernel that keeps them on chip takes.
    {"deltanet", {{"mlp_width", "37"}}},
    {"hqlt", {{"mlp_width", "192"}}},
    {"transformer", {{"mlp_width", "37"}}},
};

// Mixers that are recorded (nn/fused/autograd_branch.h), alone and beside one of kernels. In bfloat16 gpu_precision.cpp
// has them.
const std::vector<Variant> kRecordedVariants = {{"hqlt", {{"window", "7"}, {"fast_weights", "gla"}}},
                                                {"stack", {{"stack", "deltanet,gla,retnet"}}}};

constexpr ErrorBounds kSingle{3e-5, 1e-4}, kHalf{.output = 0.04, .gradient = 0.12, .conditioning = {0.06, 0.06}},
    kRecorded{.output = 3e-5, .gradient = 1e-4, .by_kernels = false};

}  // namespace

// Float32 rounds at 6e-8; two layers whose states add up over a hundred steps amplify that a few hundred times.
// Normalised branches do so a thousand times where the fast weights answer almost nothing, which is what narrow heads
// meet.
TEST_CASE("in float32 output and all gradients are the definition's") {
  if (skip_without_gpu()) return;
  for (const Variant& variant : kVariants)
    for (const Case& c : kCases)
      if (!normalises_branches(variant) || !has_narrow_heads(c)) check_case(c, variant, torch::kFloat32, kSingle);
  for (const Variant& variant : kRecordedVariants)
    for (const Case& c : kCases) check_case(c, variant, torch::kFloat32, kRecorded);
}

// bfloat16 rounds at 4e-3; every activation between two products is rounded, some twenty in a row through two layers
// with enlarged weights. Heads narrower than 16 channels average too little of it away to be compared this closely.
TEST_CASE("in bfloat16 output and all gradients are near the definition's") {
  if (skip_without_gpu()) return;
  for (const Variant& variant : kVariants)
    for (const Case& c : kCases)
      if (!has_narrow_heads(c)) check_case(c, variant, torch::kBFloat16, kHalf);
}

// So that compute-sanitizer can watch it.
TEST_CASE("small shapes: fused blocks") {
  if (skip_without_gpu()) return;
  const Case small = kCases[3];
  for (const Variant& variant : kRecordedVariants) check_case(small, variant, torch::kFloat32, kRecorded);
  for (const Variant& variant : kVariants) {
    check_case(small, variant, torch::kFloat32, kSingle);
    check_case(small, variant, torch::kBFloat16, kHalf);
  }
}

TEST_CASE("the same input gives the same bits") {
  if (skip_without_gpu()) return;
  for (const char* backbone : {"deltanet", "hqlt", "transformer", "linear_transformer", "dpfp", "gated_deltanet",
                               "mamba2", "mlstm", "hqlt_delayed_stream", "hqlt_delayed_chunk"}) {
    CAPTURE(backbone);
    torch::manual_seed(6);
    const auto model = make_model({backbone, {{"width", "100"}, {"dropout", "0.2"}}}, 200, torch::kFloat32);
    model->to(torch::kCUDA);
    const Tensor input = torch::randn({8, 200, 100}, torch::kCUDA).to(torch::kBFloat16);
    const Tensor weight = torch::randn({8, 200, 100}, torch::kCUDA);
    const Tensor lengths_B = torch::full({8}, 200, torch::dtype(torch::kInt64).device(torch::kCUDA));
    const Gradients first = differentiate(*model, input, weight, lengths_B);
    for (int i = 0; i < 100; ++i) {
      const Gradients again = differentiate(*model, input, weight, lengths_B);
      REQUIRE(torch::equal(again.output_BTD, first.output_BTD));
      REQUIRE(torch::equal(again.input_BTD, first.input_BTD));
      for (std::size_t p = 0; p < first.parameters.size(); ++p)
        REQUIRE(torch::equal(again.parameters[p], first.parameters[p]));
    }
  }
}

// What is added to must have been computed: the products of the weights run on a stream of their own.
TEST_CASE("a second gradient is added to the first") {
  if (skip_without_gpu()) return;
  for (const char* backbone : {"deltanet", "hqlt", "transformer", "retnet", "mamba2", "mlstm", "min_gru"}) {
    CAPTURE(backbone);
    torch::manual_seed(7);
    const auto model = make_model({backbone, {{"width", "100"}, {"dropout", "0.2"}}}, 300, torch::kFloat32);
    model->to(torch::kCUDA);
    const Tensor input = torch::randn({16, 300, 100}, torch::kCUDA).to(torch::kBFloat16);
    const Tensor weight = torch::randn({16, 300, 100}, torch::kCUDA);
    const Tensor lengths_B = torch::full({16}, 300, torch::dtype(torch::kInt64).device(torch::kCUDA));
    const Gradients first = differentiate(*model, input, weight, lengths_B);
    (model->forward_fresh(input, lengths_B).to(torch::kFloat32) * weight).sum().backward();
    const std::vector<Tensor> parameters = model->parameters();
    for (std::size_t p = 0; p < parameters.size(); ++p)
      REQUIRE(torch::equal(parameters[p].grad(), 2 * first.parameters[p]));
  }
}
