// What all backbones promise: forward() equals step() under any split, ragged and poisoned rows, resets, causality,
// gradients, and memory in training mode.
#include "memory/core/sequence_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

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

Reference reference_by_steps(SequenceModel& model, const std::vector<std::int64_t>& row_lengths,
                             torch::ScalarType dtype) {
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
  const std::int64_t longest_call = draw((reference.input_BTD.size(1) + 7) / 8, reference.input_BTD.size(1));
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
      input_BTD[b]
          .narrow(0, 0, taken[static_cast<std::size_t>(b)])
          .copy_(reference.input_BTD[b].narrow(0, position[static_cast<std::size_t>(b)],
                                               taken[static_cast<std::size_t>(b)]));
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
      output_BTD[b]
          .narrow(0, position[static_cast<std::size_t>(b)], count)
          .copy_(call_output_BTD[b].narrow(0, 0, count));
      position[static_cast<std::size_t>(b)] += count;
    }
  }
  const Tensor valid = (torch::arange(output_BTD.size(1)) < reference.lengths_B.unsqueeze(1)).unsqueeze(2);
  return std::max(relative_error(output_BTD, reference.output_BTD * valid), state_error(state, reference.final_state));
}

double error_of_whole(SequenceModel& model, const Reference& reference) {
  const Tensor behind = (torch::arange(reference.input_BTD.size(1)) >= reference.lengths_B.unsqueeze(1)).unsqueeze(2);
  const SequenceModel::Output out = model.forward(reference.input_BTD.masked_fill(behind, kNaN), reference.lengths_B);
  CHECK(out.output_BTD.isfinite().all().item<bool>());
  return std::max(relative_error(out.output_BTD.masked_fill(behind, 0), reference.output_BTD.masked_fill(behind, 0)),
                  state_error(out.final_state, reference.final_state));
}

}  // namespace

TEST_CASE("forward equals repeated step equals any split, in float64 and float32") {
  // One float64 rounding is 1e-16, one float32 rounding 6e-8, and some hundred steps of two layers amplify them. How
  // much is the variant's own (a norm enlarges what is small), and shows in float64: where the same factor, with a
  // margin of 2 for the luck of single roundings, makes more of float32's than 1e-4, that is allowed.
  constexpr double kRatio = 2.0 * std::numeric_limits<float>::epsilon() / std::numeric_limits<double>::epsilon();
  for (const Variant& variant : small_variants()) {
    CAPTURE(variant.label());
    double tolerance = 1e-10, greatest = 0;
    for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
      CAPTURE(dtype);
      if (dtype == torch::kFloat32) tolerance = std::max(1e-4, kRatio * greatest);
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
        const auto check = [&](double error) {
          CHECK(error < tolerance);
          greatest = std::max(greatest, error);
        };
        check(error_of_whole(*model, reference));
        for (int i = 0; i < splits; ++i) check(error_of_random_split(*model, reference, random));
      }
    }
  }
}

TEST_CASE("forward equals repeated step at the width of the experiments, 100 with heads of 50") {
  for (const std::string& backbone : backbone_names()) {
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

TEST_CASE("a row that is reset in the middle begins a new episode and leaves the other rows alone") {
  const torch::NoGradGuard no_grad;
  for (const Variant& variant : small_variants()) {
    CAPTURE(variant.label());
    auto model = enlarged_model(variant, 40, 3);
    const std::int64_t batch = 4, width = model->width();
    const Tensor input_BTD = torch::randn({batch, 40, width}, torch::kFloat64);
    // Before which step each row is reset; 40: never.
    const std::vector<std::int64_t> reset = {13, 40, 20, 13};
    MemoryState state = model->initial_state(batch);
    std::vector<Tensor> outputs;
    for (std::int64_t t = 0; t < 40; ++t) {
      const Tensor reset_B = lengths(reset) == t;
      // What a forgotten row held must not matter, whatever it was.
      for (Tensor& tensor : state.tensors)
        for (std::int64_t b = 0; b < batch; ++b)
          if (reset_B[b].item<bool>() && tensor.is_floating_point()) tensor[b].fill_(kNaN);
      state.reset_rows(reset_B);
      if (t < 30) {
        outputs.push_back(model->step(input_BTD.select(1, t), state));
        continue;
      }
      // The last ten steps in one call.
      const auto out = model->forward(input_BTD.narrow(1, t, 10), state, lengths({10, 10, 10, 10}));
      for (const Tensor& output_BD : out.output_BTD.unbind(1)) outputs.push_back(output_BD);
      break;
    }
    const Tensor output_BTD = torch::stack(outputs, 1);
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t first = reset[static_cast<std::size_t>(b)];
      const Tensor row_1TD = input_BTD.narrow(0, b, 1);
      CHECK(relative_error(output_BTD.narrow(0, b, 1).narrow(1, 0, first),
                           model->forward(row_1TD.narrow(1, 0, first))) < 1e-10);
      if (first < 40)
        CHECK(relative_error(output_BTD.narrow(0, b, 1).narrow(1, first, 40 - first),
                             model->forward(row_1TD.narrow(1, first, 40 - first))) < 1e-10);
    }
  }
}

TEST_CASE("what stands behind a row's length has no influence on outputs, gradients and state") {
  for (const Variant& variant : small_variants()) {
    CAPTURE(variant.label());
    auto model = enlarged_model(variant, 70, 4);
    const Tensor lengths_B = lengths({70, 0, 33});
    const Tensor behind = (torch::arange(70) >= lengths_B.unsqueeze(1)).unsqueeze(2);
    const Tensor clean_BTD = torch::randn({3, 70, model->width()}, torch::kFloat64);
    // All that a call yields, with `padding` behind the rows' ends.
    const auto results = [&](double padding) {
      model->zero_grad();
      const Tensor input_BTD = clean_BTD.masked_fill(behind, padding).requires_grad_();
      const SequenceModel::Output out = model->forward(input_BTD, lengths_B);
      const Tensor output_BTD = out.output_BTD.masked_fill(behind, 0);
      output_BTD.square().sum().backward();
      std::vector<Tensor> all = out.final_state.detach().tensors;
      all.push_back(output_BTD.detach());
      all.push_back(input_BTD.grad());
      for (const Tensor& parameter : model->parameters())
        if (parameter.requires_grad()) all.push_back(parameter.grad().clone());
      return all;
    };
    const std::vector<Tensor> zero = results(0), poisoned = results(kNaN);
    for (std::size_t i = 0; i < zero.size(); ++i) CHECK(torch::equal(zero[i], poisoned[i]));
  }
}

TEST_CASE("an empty row keeps its state") {
  constexpr std::int64_t kLong = 71;  // steps, more than the longest delay
  const torch::NoGradGuard no_grad;
  for (const Variant& variant : small_variants()) {
    CAPTURE(variant.label());
    auto model = enlarged_model(variant, 150, 5);
    const Tensor input_BTD = torch::randn({2, kLong, model->width()}, torch::kFloat64);
    const MemoryState before = model->forward(input_BTD, lengths({kLong, kLong})).final_state;
    for (const std::int64_t steps : {std::int64_t{0}, kLong}) {
      const auto input = -input_BTD.narrow(1, 0, steps);
      const MemoryState after = model->forward(input, before, lengths({steps, 0})).final_state;
      for (std::size_t i = 0; i < before.tensors.size(); ++i) {
        CHECK(torch::equal(after.tensors[i][1], before.tensors[i][1]));
        CHECK(torch::equal(after.tensors[i][0], before.tensors[i][0]) == (steps == 0));
      }
    }
  }
}

TEST_CASE("no output depends on a later input") {
  const torch::NoGradGuard no_grad;
  for (const Variant& variant : small_variants()) {
    CAPTURE(variant.label());
    auto model = enlarged_model(variant, 150, 6);
    const Tensor input_BTD = torch::randn({2, 150, model->width()}, torch::kFloat64);
    const Tensor output_BTD = model->forward(input_BTD);
    for (const std::int64_t change : {1, 64, 71, 149}) {
      Tensor other_BTD = input_BTD.clone();
      other_BTD.narrow(1, change, 150 - change).normal_();
      const Tensor changed_BTD = model->forward(other_BTD);
      CHECK(torch::equal(changed_BTD.narrow(1, 0, change), output_BTD.narrow(1, 0, change)));
      CHECK(!torch::equal(changed_BTD.select(1, change), output_BTD.select(1, change)));
    }
  }
}

TEST_CASE("gradients equal finite differences, to parameters, input and initial state") {
  for (const Variant& variant : small_variants()) {
    if (too_sharp_for_differences(variant)) continue;
    CAPTURE(variant.label());
    auto model = enlarged_model(variant, 90, 7);
    // Rows at positions 6, 0 and 3, the first over more than one chunk.
    const MemoryState start =
        model->forward(torch::randn({3, 6, model->width()}, torch::kFloat64), lengths({6, 0, 3})).final_state.detach();
    // The last takes no step and keeps any state: one that is not at 0, the bound of mLSTM's scale, where a difference
    // would have another side.
    for (const Tensor& tensor : start.tensors)
      if (tensor.is_floating_point()) tensor.select(0, 2).add_(0.01);
    const Tensor lengths_B = lengths({75, 20, 0});
    const Tensor valid = (torch::arange(75) < lengths_B.unsqueeze(1)).unsqueeze(2);
    const Tensor input_BTD = torch::randn({3, 75, model->width()}, torch::kFloat64).requires_grad_();
    std::vector<std::pair<std::string, Tensor>> variables = {{"input", input_BTD}};
    for (std::size_t i = 0; i < start.tensors.size(); ++i)
      if (start.tensors[i].is_floating_point())
        variables.emplace_back("state " + std::to_string(i), start.tensors[i].requires_grad_());
    for (const auto& item : model->named_parameters())
      if (item.value().requires_grad()) variables.emplace_back(item.key(), item.value());

    const Tensor output_weights = torch::randn({3, 75, model->width()}, torch::kFloat64) * valid;
    std::vector<Tensor> state_weights;
    for (const Tensor& tensor : start.tensors) state_weights.push_back(torch::randn(tensor.sizes(), torch::kFloat64));
    const auto loss = [&] {
      const SequenceModel::Output out = model->forward(input_BTD, start, lengths_B);
      Tensor sum = (out.output_BTD * output_weights).sum();
      for (std::size_t i = 0; i < start.tensors.size(); ++i)
        if (start.tensors[i].is_floating_point()) sum = sum + (out.final_state.tensors[i] * state_weights[i]).sum();
      return sum;
    };
    loss().backward();
    const torch::NoGradGuard no_grad;
    for (auto& [name, variable] : variables) {
      CAPTURE(name);
      REQUIRE(variable.grad().defined());
      // Along a random direction of length 1. The difference of fourth order leaves an error of step^4 = 1e-16 times
      // the fifth derivative, large in these sharp functions, and of rounding 1e-16 / step = 1e-12 times the loss.
      // Where the former is too large, a quarter of the step leaves 1/256 of it; a wrong gradient is wrong at both.
      Tensor direction = torch::randn_like(variable);
      direction /= direction.norm();
      const Tensor origin = variable.clone();
      const auto loss_at = [&](double distance) {
        variable.copy_(origin + direction * distance);
        return loss().item<double>();
      };
      const double expected = (variable.grad() * direction).sum().item<double>();
      const auto error_with = [&](double step) {
        const double slope =
            (8 * (loss_at(step) - loss_at(-step)) - (loss_at(2 * step) - loss_at(-2 * step))) / (12 * step);
        return std::abs(slope - expected);
      };
      const double scale = variable.grad().norm().item<double>() / std::sqrt(static_cast<double>(variable.numel()));
      const double allowed = 1e-6 * (scale + std::abs(expected)) + 1e-9;
      double error = error_with(1e-4);
      if (error >= allowed) error = error_with(2.5e-5);
      variable.copy_(origin);
      CHECK(error < allowed);
    }
  }
}

TEST_CASE("in training mode the step path carries memory exactly as in evaluation mode") {
  for (const Variant& variant : small_variants()) {
    CAPTURE(variant.label());
    auto model = enlarged_model(variant, 10, 8);
    const Tensor history_BTD = torch::randn({2, 6, model->width()}, torch::kFloat64);
    const Tensor same_BD = torch::randn({1, model->width()}, torch::kFloat64).expand({2, -1});
    const auto output_after_history = [&](bool training) {
      model->train(training);
      MemoryState state = model->initial_state(2);
      for (const Tensor& input_BD : history_BTD.unbind(1)) model->step(input_BD, state);
      return model->step(same_BD, state);
    };
    const Tensor training_BD = output_after_history(true);
    CHECK(!training_BD.requires_grad());
    CHECK(torch::equal(training_BD, output_after_history(false)));
    const double difference = (training_BD[0] - training_BD[1]).abs().max().item<double>();
    if (variant.backbone == "none")
      CHECK(difference == 0);
    else
      CHECK(difference > 1e-3);
  }
}

TEST_CASE("dropout acts in training mode alone, in forward and in step, and leaves the memory to be carried") {
  const torch::NoGradGuard no_grad;
  const Variant::Settings settings{{"width", "12"}, {"dropout", "0.5"}};
  for (Variant variant : {Variant{"transformer", settings}, Variant{"deltanet", settings}, Variant{"hqlt", settings},
                          Variant{"hqlt_delayed_stream", settings}, Variant{"hqlt_delayed_chunk", settings},
                          Variant{"gated_deltanet", settings}, Variant{"performer", settings},
                          Variant{"mlstm", settings}, Variant{"gtrxl", settings}}) {
    if (variant.backbone.starts_with("hqlt")) variant.settings.emplace_back("window", "2");
    CAPTURE(variant.label());
    auto model = enlarged_model(variant, 10, 9);
    const Tensor input_BTD = torch::randn({2, 4, 12}, torch::kFloat64);
    // Longer than the window, so that the delayed fast weights are written, too.
    const auto steps = [&] {
      MemoryState state = model->initial_state(2);
      for (int t = 0; t < 3; ++t) model->step(input_BTD.select(1, t), state);
      return std::pair{model->step(input_BTD.select(1, 3), state), state};
    };
    model->eval();
    CHECK(torch::equal(model->forward(input_BTD), model->forward(input_BTD)));
    CHECK(torch::equal(steps().first, steps().first));
    model->train();
    const auto clock = seed_dropout(*model, 2);
    const Tensor forward_BTD = model->forward(input_BTD), step_BD = steps().first;
    CHECK(torch::equal(forward_BTD, model->forward(input_BTD)));
    CHECK(torch::equal(step_BD, steps().first));
    clock->tick();
    CHECK(!torch::equal(forward_BTD, model->forward(input_BTD)));
    CHECK(!torch::equal(step_BD, steps().first));
    const MemoryState state = steps().second;
    for (const Tensor& tensor : state.tensors) CHECK((tensor != 0).any().item<bool>());
  }
}

TEST_CASE("the initial state is all zero, and a state is copied, detached and reset") {
  for (const Variant& variant : small_variants()) {
    CAPTURE(variant.label());
    auto model = make_model(variant, 80, torch::kFloat32);
    MemoryState state = model->initial_state(3);
    CHECK(state.batch() == (variant.backbone == "none" ? 0 : 3));
    for (const Tensor& tensor : state.tensors) {
      CHECK(tensor.size(0) == 3);
      CHECK((tensor == 0).all().item<bool>());
      CHECK(!tensor.requires_grad());
    }
    const MemoryState before = state.clone();
    // More steps than the longest delay.
    for (int t = 0; t < 71; ++t) model->step(torch::randn({3, model->width()}), state);
    for (std::size_t i = 0; i < state.tensors.size(); ++i) {
      CHECK(!torch::equal(state.tensors[i], before.tensors[i]));
      CHECK((before.tensors[i] == 0).all().item<bool>());
    }
    const auto out = model->forward(torch::randn({3, 2, model->width()}), lengths({2, 2, 2}));
    for (const Tensor& tensor : out.final_state.detach().tensors) CHECK(!tensor.requires_grad());
  }
}

TEST_CASE("misuse is refused") {
  auto model = make_model({"deltanet", {{"width", "12"}}}, 10, torch::kFloat32);
  const Tensor input_BTD = torch::zeros({2, 3, 12});
  CHECK_THROWS_AS(model->forward(torch::zeros({2, 3, 10})), c10::Error);
  CHECK_THROWS_AS(model->forward(input_BTD, lengths({3})), c10::Error);
  CHECK_THROWS_AS(model->forward(input_BTD, lengths({3, 4})), c10::Error);
  CHECK_THROWS_AS(model->forward(input_BTD, lengths({3, -1})), c10::Error);
  CHECK_THROWS_AS(model->forward(input_BTD, MemoryState{}, lengths({3, 3})), c10::Error);
  CHECK_THROWS_AS(model->forward(input_BTD, model->initial_state(1), lengths({3, 3})), c10::Error);
  MemoryState one_row = model->initial_state(1);
  CHECK_THROWS_AS(model->step(torch::zeros({2, 12}), one_row), c10::Error);
  CHECK_THROWS_AS(model->step(torch::zeros({1, 10}), one_row), c10::Error);
}
