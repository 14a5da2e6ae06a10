// What all backbones promise: forward() equals step() under any split, ragged and poisoned rows, resets, causality,
// gradients, and memory in training mode.
#include "memory/sequence_model.h"

#include <random>

#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Sequences with their outputs and final states by step() alone.
struct Reference {
  Tensor input_BTD;
  Tensor lengths_B;
  Tensor output_BTD;
  MemoryState final_state;
};

Reference reference_by_steps(SequenceModel& model, const std::vector<std::int64_t>& row_lengths, torch::ScalarType dtype) {
  const auto batch = static_cast<std::int64_t>(row_lengths.size());
  const std::int64_t steps = *std::max_element(row_lengths.begin(), row_lengths.end());
  Reference reference;
  reference.input_BTD = torch::randn({batch, steps, model.width()}, dtype);
  reference.lengths_B = lengths(row_lengths);
  MemoryState state = model.initial_state(batch);
  reference.final_state = state.clone();
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < steps; ++t) {
    outputs.push_back(model.step(reference.input_BTD.select(1, t), state));
    for (std::int64_t b = 0; b < batch; ++b)
      if (row_lengths[static_cast<std::size_t>(b)] == t + 1)
        for (std::size_t i = 0; i < state.tensors.size(); ++i)
          reference.final_state.tensors[i][b].copy_(state.tensors[i][b]);
  }
  reference.output_BTD = torch::stack(outputs, 1);
  return reference;
}

double state_error(const MemoryState& a, const MemoryState& b) {
  double error = 0;
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i)
    error = std::max(error, relative_error(a.tensors[i].to(torch::kFloat64), b.tensors[i].to(torch::kFloat64)));
  return error;
}

// Runs the sequences in calls that advance every row by a number of steps of its own, some calls being a step() of all.
// Returns the largest error of outputs and final state.
double error_of_random_split(SequenceModel& model, const Reference& reference, std::mt19937& random) {
  const std::int64_t batch = reference.input_BTD.size(0), width = reference.input_BTD.size(2);
  const auto draw = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const std::int64_t longest_call = draw(1, reference.input_BTD.size(1));
  MemoryState state = model.initial_state(batch);
  std::vector<std::int64_t> position(static_cast<std::size_t>(batch), 0);
  const auto left = [&](std::int64_t b) {
    return reference.lengths_B[b].item<std::int64_t>() - position[static_cast<std::size_t>(b)];
  };
  Tensor output_BTD = torch::zeros_like(reference.output_BTD);
  for (;;) {
    std::int64_t most_left = 0, least_left = reference.input_BTD.size(1);
    for (std::int64_t b = 0; b < batch; ++b) {
      most_left = std::max(most_left, left(b));
      least_left = std::min(least_left, left(b));
    }
    if (most_left == 0) break;
    const bool single_step = least_left > 0 && draw(0, 3) == 0;
    std::vector<std::int64_t> taken;
    for (std::int64_t b = 0; b < batch; ++b)
      taken.push_back(single_step ? 1 : std::min(left(b), draw(0, 4) == 0 ? 0 : draw(0, longest_call)));
    const std::int64_t steps = *std::max_element(taken.begin(), taken.end()) + (single_step ? 0 : draw(0, 2));
    Tensor input_BTD = torch::full({batch, steps, width}, kNaN, reference.input_BTD.options());
    for (std::int64_t b = 0; b < batch; ++b)
      input_BTD[b].narrow(0, 0, taken[static_cast<std::size_t>(b)])
          .copy_(reference.input_BTD[b].narrow(0, position[static_cast<std::size_t>(b)], taken[static_cast<std::size_t>(b)]));
    Tensor call_output_BTD;
    if (single_step) {
      call_output_BTD = model.step(input_BTD.select(1, 0), state).unsqueeze(1);
    } else {
      SequenceModel::Output out = model.forward(input_BTD, state, lengths(taken));
      call_output_BTD = out.output_BTD.detach();
      CHECK(call_output_BTD.isfinite().all().item<bool>());
      state = out.final_state.detach();
    }
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t count = taken[static_cast<std::size_t>(b)];
      output_BTD[b].narrow(0, position[static_cast<std::size_t>(b)], count).copy_(call_output_BTD[b].narrow(0, 0, count));
      position[static_cast<std::size_t>(b)] += count;
    }
  }
  const Tensor valid = (torch::arange(output_BTD.size(1)) < reference.lengths_B.unsqueeze(1)).unsqueeze(2);
  return std::max(relative_error(output_BTD, reference.output_BTD * valid), state_error(state, reference.final_state));
}

double error_of_whole(SequenceModel& model, const Reference& reference) {
  const Tensor behind =
      (torch::arange(reference.input_BTD.size(1)) >= reference.lengths_B.unsqueeze(1)).unsqueeze(2);
  const SequenceModel::Output out =
      model.forward(reference.input_BTD.masked_fill(behind, kNaN), reference.lengths_B);
  CHECK(out.output_BTD.isfinite().all().item<bool>());
  return std::max(relative_error(out.output_BTD.masked_fill(behind, 0), reference.output_BTD.masked_fill(behind, 0)),
                  state_error(out.final_state, reference.final_state));
}

}  // namespace

TEST_CASE("forward equals repeated step equals any split, in float64 and float32") {
  // One float64 rounding is 1e-16, one float32 rounding 6e-8, and some hundred steps of two layers amplify them.
  for (const auto& [dtype, tolerance] : {std::pair{torch::kFloat64, 1e-10}, std::pair{torch::kFloat32, 1e-4}})
    for (const Variant& variant : small_variants()) {
      CAPTURE(variant.label());
      CAPTURE(dtype);
      torch::manual_seed(1);
      std::mt19937 random(1);
      const torch::NoGradGuard no_grad;
      auto model = make_model(variant, 300, dtype);
      enlarge_weights(*model);
      model->eval();
      // Around the chunk of 64, the windows, and the bound of 300; 10 + 30 + 60 splits.
      const std::vector<std::pair<std::vector<std::int64_t>, int>> cases = {
          {{300, 1, 129, 64}, 10}, {{66, 64, 65, 7}, 30}, {{17, 4, 5, 6}, 60}, {{1, 1}, 0}};
      for (const auto& [row_lengths, splits] : cases) {
        const Reference reference = reference_by_steps(*model, row_lengths, dtype);
        CHECK(error_of_whole(*model, reference) < tolerance);
        for (int i = 0; i < splits; ++i) CHECK(error_of_random_split(*model, reference, random) < tolerance);
      }
    }
}

TEST_CASE("forward equals repeated step at the width of the experiments, 100 with heads of 50") {
  for (const char* backbone : {"transformer", "deltanet", "hqlt", "lstm", "gru", "none"}) {
    CAPTURE(backbone);
    torch::manual_seed(2);
    std::mt19937 random(2);
    const torch::NoGradGuard no_grad;
    auto model = make_model({backbone, {}}, 150, torch::kFloat64);
    enlarge_weights(*model);
    const Reference reference = reference_by_steps(*model, {150, 3, 70}, torch::kFloat64);
    CHECK(error_of_whole(*model, reference) < 1e-10);
    for (int i = 0; i < 2; ++i) CHECK(error_of_random_split(*model, reference, random) < 1e-10);
  }
}
