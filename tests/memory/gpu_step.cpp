// step() on a GPU: by the kernels' attention against the CPU in double precision, and captured in a graph.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <doctest/doctest.h>

#include <vector>

#include "memory/sequence_model.h"
#include "tests/gpu.h"
#include "tests/memory/support.h"

using namespace engram;
using engram::testing::skip_without_gpu;
using torch::Tensor;

namespace {

constexpr int kSteps = 90;
constexpr std::int64_t kRows = 5;

// Heads of 50, of 16 and of 3, which the kernel does not take; with dropout LibTorch's operations do the
// Transformer's step.
const std::vector<Variant> kVariants = {
    {"transformer", {{"width", "100"}, {"layers", "2"}}},
    {"transformer", {{"width", "32"}, {"layers", "1"}}},
    {"transformer", {{"width", "12"}, {"heads", "4"}}},
    {"transformer", {{"width", "32"}, {"dropout", "0.3"}}},
    {"hqlt", {{"width", "100"}, {"window", "64"}}},
    {"hqlt", {{"width", "32"}, {"window", "7"}, {"mixing", "scalar"}, {"dropout", "0.3"}}},
    {"hqlt_delayed_stream", {{"width", "100"}, {"window", "16"}}},
    {"hqlt_delayed_stream", {{"width", "32"}, {"window", "7"}, {"mixing", "scalar"}, {"dropout", "0.3"}}},
    {"hqlt_delayed_chunk", {{"width", "100"}, {"window", "16"}}},
    {"hqlt_delayed_chunk", {{"width", "32"}, {"window", "7"}, {"mixing", "scalar"}, {"dropout", "0.3"}}},
};

// The rows that begin anew before step t.
Tensor reset_rows(int t) {
  Tensor reset_B = torch::zeros({kRows}, torch::kBool);
  for (std::int64_t row = 0; row < kRows; ++row) reset_B[row] = t > 0 && t % (20 + 17 * row) == 0;
  return reset_B;
}

}  // namespace

// Float32 rounds at 6e-8; two layers with enlarged weights amplify that a few hundred times.
TEST_CASE("steps on a GPU give what they give on the CPU, rows at different positions and dropout included") {
  if (skip_without_gpu()) return;
  for (const Variant& variant : kVariants) {
    CAPTURE(variant.label());
    torch::manual_seed(3);
    const auto reference = make_model(variant, kSteps, torch::kFloat64);
    enlarge_weights(*reference);
    const auto model = make_model(variant, kSteps, torch::kFloat32);
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < model->parameters().size(); ++i) {
        reference->parameters()[i].copy_(reference->parameters()[i].to(torch::kFloat32));
        model->parameters()[i].copy_(reference->parameters()[i]);
      }
    }
    model->to(torch::kCUDA);
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
      const Tensor output = model->step(input.to(torch::kCUDA), state);
      REQUIRE(relative_error(output.to(torch::kCPU, torch::kFloat64), expected) < 1e-4);
    }
    for (std::size_t i = 0; i < state.tensors.size(); ++i)
      CHECK(relative_error(state.tensors[i].to(torch::kCPU, torch::kFloat64),
                           expected_state.tensors[i].to(torch::kFloat64)) < 1e-4);
  }
}

TEST_CASE("a step that a graph replays gives the same bits as one that is launched") {
  if (skip_without_gpu()) return;
  for (const Variant& variant : kVariants) {
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
