// What the threads of the delayed HQLTs' kernel do, in turns on the CPU, against the definition by LibTorch's
// operations; and which steps have kernels.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/fast_weights/delayed_memory/walk.h"
#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

constexpr std::int64_t kRows = 4, kSteps = 40;
constexpr int kThreads = 64;

template <Delay kDelay>
void walk(const delayed_memory::Problem<float>& problem) {
  for (unsigned block = 0; block < kRows * static_cast<unsigned>(problem.heads); ++block) {
    std::vector<delayed_memory::Walk<kDelay, float, kThreads>> threads;
    for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(problem, block, i);
    const auto shared = std::make_unique<delayed_memory::Shared<kDelay, kThreads>>();
    for (auto& thread : threads) thread.begin(*shared);
    for (int tile = 0; tile < threads[0].tiles(); ++tile) {
      for (auto& thread : threads) thread.stage(tile, *shared);
      for (auto& thread : threads) thread.write(tile, *shared);
    }
    for (auto& thread : threads) thread.read(*shared);
    for (auto& thread : threads) thread.end();
  }
}

// The memory of a model's only layer, behind the position.
struct LayerState {
  Tensor fast_BHKV, key_BSHK, value_BSHV, beta_BSH1;
  explicit LayerState(const MemoryState& state)
      : fast_BHKV(state.tensors[1]), key_BSHK(state.tensors[2]), value_BSHV(state.tensors[3]) {
    if (state.tensors.size() > 4) beta_BSH1 = state.tensors[4];
  }
};

// Brings the fast weights and a chunk's strengths of `before` to what they are after a step at position_B, whose rings
// are `ring`.
void step_fast_weights(Delay delay, bool rope, const Tensor& position_B, const LayerState& before,
                       const LayerState& ring, const Tensor& strength_BH) {
  const std::int64_t heads = before.fast_BHKV.size(1), width = before.fast_BHKV.size(2);
  const Tensor query = torch::randn({kRows, heads, width}), output = torch::empty_like(query);
  const Tensor beta = strength_BH.contiguous();
  const auto problem = delayed_memory::problem_of<float>(
      {.delay = delay,
       .rows = static_cast<int>(kRows),
       .heads = static_cast<int>(heads),
       .width = static_cast<int>(width),
       .output_width = static_cast<int>(width),
       .slots = static_cast<int>(ring.key_BSHK.size(1)),
       .dtype = Dtype::kFloat32,
       .scale = 1,
       .rotary_width = rope ? static_cast<int>(width) : 0,
       .q_row_stride = heads * width,
       .q_head_stride = width,
       .q = query.data_ptr(),
       .beta_NH = beta.data_ptr(),
       .position_N = position_B.data_ptr<std::int64_t>(),
       .key_ring_NSHW = ring.key_BSHK.data_ptr<float>(),
       .value_ring_NSHW = ring.value_BSHV.data_ptr<float>(),
       .beta_ring_NSH = delay == Delay::kChunk ? before.beta_BSH1.data_ptr<float>() : nullptr,
       .fast_NHWW = before.fast_BHKV.data_ptr<float>(),
       .output_NHP = output.data_ptr()});
  delay == Delay::kStream ? walk<Delay::kStream>(problem) : walk<Delay::kChunk>(problem);
  const Tensor expected = torch::matmul(query.unsqueeze(2), before.fast_BHKV).squeeze(2);
  CHECK(relative_error(output, expected) < 1e-5);
}

std::string reason_of(const Variant& variant, torch::ScalarType parameters, torch::ScalarType products,
                      torch::DeviceType device) {
  return make_model(variant, 10, parameters)->supports_step(products, device).reason();
}

}  // namespace

TEST_CASE("the kernel's threads write to the delayed fast weights what the definition writes, rows apart in time") {
  for (const auto& [backbone, delay] :
       {std::pair("hqlt_delayed_stream", Delay::kStream), std::pair("hqlt_delayed_chunk", Delay::kChunk)})
    for (const std::string window : {"1", "5", "17"})
      for (const std::string positions : {"rope", "none"}) {
        CAPTURE(backbone);
        CAPTURE(window);
        CAPTURE(positions);
        torch::manual_seed(5);
        const auto model =
            make_model({backbone, {{"width", "12"}, {"layers", "1"}, {"window", window}, {"positions", positions}}},
                       kSteps, torch::kFloat32);
        enlarge_weights(*model);
        MemoryState state = model->initial_state(kRows);
        int written = 0;  // steps
        for (int t = 0; t < kSteps; ++t) {
          CAPTURE(t);
          // Rows that begin anew keep nothing, not even what is not a number.
          const Tensor reset_B = torch::zeros({kRows}, torch::kBool);
          for (std::int64_t row = 0; row < kRows; ++row) reset_B[row] = t == 3 * row || t == 25 + row;
          state.reset_rows(reset_B);
          const MemoryState before = state.clone();
          MemoryView view;
          model->step(torch::randn({kRows, 12}), state, view);
          written += !torch::equal(before.tensors[1], state.tensors[1]);
          const LayerState own(before), expected(state);
          step_fast_weights(delay, positions == "rope", before.tensors[0], own,
                            delay == Delay::kStream ? own : expected, view.layers[0].write_strength_BH);
          REQUIRE(relative_error(own.fast_BHKV, expected.fast_BHKV) < 1e-5);
          if (delay == Delay::kChunk) REQUIRE(torch::equal(own.beta_BSH1, expected.beta_BSH1));
        }
        CHECK(written > 0);
      }
}

TEST_CASE("a step has kernels where all layers have some, on a GPU, and says why it has none elsewhere") {
  const auto on_gpu = [](const Variant& variant) {
    return reason_of(variant, torch::kFloat32, torch::kBFloat16, torch::kCUDA);
  };
  for (const std::string backbone : {"hqlt_delayed_stream", "hqlt_delayed_chunk"}) {
    CAPTURE(backbone);
    CHECK(on_gpu({backbone, {{"width", "100"}}}) == "");
    CHECK(on_gpu({backbone, {{"width", "6"}, {"heads", "2"}, {"positions", "none"}}}) == "width / heads 3 is not even");
    CHECK(on_gpu({backbone, {{"width", "260"}}}) == "width / heads 130 is more than 128");
    const Variant variant{backbone, {{"width", "12"}}};
    CHECK(reason_of(variant, torch::kFloat32, torch::kFloat32, torch::kCUDA) == "");
    CHECK(reason_of(variant, torch::kFloat32, torch::kFloat32, torch::kCPU) == "the kernels are for GPUs");
    CHECK(reason_of(variant, torch::kBFloat16, torch::kBFloat16, torch::kCUDA) == "the parameters are in BFloat16");
    // Learning takes odd widths, too.
    const auto learning = [](const Variant& of) {
      return make_model(of, 10, torch::kFloat32)->supports_learning(torch::kFloat32, torch::kCUDA).reason();
    };
    CHECK(learning({backbone, {{"width", "6"}, {"positions", "none"}}}) == learning({"deltanet", {{"width", "12"}}}));
  }
  CHECK(on_gpu({"stack", {{"width", "12"}, {"stack", "hqlt_delayed_chunk,hqlt_delayed_stream:window=3"}}}) == "");
  CHECK(on_gpu({"stack", {{"width", "12"}, {"stack", "hqlt_delayed_chunk,min_gru"}}}) ==
        "min_gru: its step has no kernels of its own");
  CHECK(on_gpu({"lstm", {{"width", "12"}}}) == "its step has no kernels of its own");
}

TEST_CASE("a step of fast weights and of attention has kernels, or says what of its memory has none") {
  const auto on_gpu = [](const Variant& variant) {
    return reason_of(variant, torch::kFloat32, torch::kBFloat16, torch::kCUDA);
  };
  for (const std::string backbone : {"hqlt", "deltanet", "linear_transformer", "retnet", "transformer"}) {
    CAPTURE(backbone);
    CHECK(on_gpu({backbone, {{"width", "24"}}}) == "");
    CHECK(on_gpu({backbone, {{"width", "260"}}}) == "width / heads 130 is more than 128");
    CHECK(reason_of({backbone, {{"width", "24"}}}, torch::kBFloat16, torch::kBFloat16, torch::kCUDA) ==
          "the parameters are in BFloat16");
  }
  CHECK(on_gpu({"hqlt", {{"width", "24"}, {"fast_weights", "mamba2"}}}) == "");
  CHECK(on_gpu({"hqlt", {{"width", "24"}, {"fast_weights", "gla"}}}) == "its step has a decay per key channel");
  CHECK(on_gpu({"gated_deltanet", {{"width", "24"}}}) == "its step has a convolution");
  for (const std::string backbone : {"hqlt", "hqlt_delayed_stream", "hqlt_delayed_chunk"}) {
    const auto learning = [](const Variant& of) {
      return make_model(of, 10, torch::kFloat32)->supports_learning(torch::kFloat32, torch::kCUDA).reason();
    };
    const Variant variant{backbone, {{"width", "24"}, {"convolution", "true"}}};
    CHECK(on_gpu(variant) == "its step has a convolution");
    CHECK(learning(variant) == learning({"deltanet", {{"width", "24"}}}));
  }
  CHECK(on_gpu({"mlstm", {{"width", "24"}}}) == "its step's write strengths have no bound");
  CHECK(on_gpu({"dpfp", {{"width", "24"}}}) == "a head has keys of 24 channels beside values of 12");
  CHECK(on_gpu({"linear_transformer", {{"width", "128"}, {"heads", "1"}}}) == "a head has 130 channels, more than 128");
  CHECK(on_gpu({"deltanet", {{"width", "6"}, {"heads", "2"}}}) == "width / heads 3 is not even");
  CHECK(on_gpu({"stack", {{"width", "24"}, {"stack", "window:window=3,attention,deltanet"}}}) == "");
  CHECK(on_gpu({"stack", {{"width", "24"}, {"stack", "shifted_sparse"}}}) == "attention by groups has no kernels");
}
