#include "memory/backbones/fast_weights/shm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "memory/ops/hadamard_memory.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

namespace {

// The row that a step takes, in unsigned arithmetic of 32 bits.
std::int64_t plain_row_of_step(std::uint32_t step, std::uint32_t rows) {
  std::uint32_t h = step + 0x9e3779b9u;
  h = (h ^ (h >> 16)) * 0x21f0aaadu;
  h = (h ^ (h >> 16)) * 0x735a2d97u;
  h = h ^ (h >> 15);
  return h % rows;
}

}  // namespace

TEST_CASE("stable Hadamard memory equals its definition, computed step by step") {
  constexpr std::int64_t kSteps = 30, kMemory = 4;
  for (const std::string rows : {"drawn", "by_step", "first"}) {
    CAPTURE(rows);
    const std::int64_t calibrations = 7;
    const double limit = rows == "first" ? 0.5 : 100;
    torch::manual_seed(1);
    const torch::NoGradGuard no_grad;
    auto model = make_model({"shm",
                             {{"width", "5"},
                              {"memory_width", "4"},
                              {"calibrations", "7"},
                              {"rows", rows},
                              {"state_limit", std::to_string(limit)}}},
                            kSteps, torch::kFloat64);
    model->eval();
    enlarge_weights(*model);
    const Parameters p = parameters_by_name(*model);
    const Tensor x_TD = torch::randn({kSteps, 5}, torch::kFloat64);
    const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
    Tensor memory = torch::zeros({kMemory, kMemory}, torch::kFloat64);
    std::set<std::int64_t> taken;
    bool reaches_limit = false;
    for (std::int64_t t = 0; t < kSteps; ++t) {
      const Tensor centred = x_TD[t] - x_TD[t].mean();
      const Tensor n = centred / (centred.square().mean() + 1e-5).sqrt() * p.at("norm.weight") + p.at("norm.bias");
      const auto map = [&](const std::string& name) { return p.at(name + ".weight").mv(n); };
      const auto feature = [&](const std::string& name) {
        const Tensor positive = map(name).clamp_min(0);
        return positive / (positive.sum() + 1e-5);
      };
      const std::int64_t row =
          rows == "first" ? 0
                          : plain_row_of_step(static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(calibrations));
      taken.insert(row);
      const Tensor calibration = 1 + torch::outer(p.at("theta")[row], map("calibration")).tanh();
      memory = memory * calibration + torch::outer(plain_sigmoid(map("strength")) * map("value"), feature("key"));
      reaches_limit = reaches_limit || memory.abs().max().item<double>() > limit;
      memory = torch::where(memory > limit, limit, torch::where(memory < -limit, -limit, memory));
      const Tensor answer = memory.mv(feature("query")) + map("shortcut") + p.at("shortcut.bias");
      CHECK(relative_error(output_TD[t], p.at("output.weight").mv(answer) + p.at("output.bias")) < 1e-10);
    }
    CHECK(static_cast<std::int64_t>(taken.size()) == (rows == "first" ? 1 : calibrations));
    CHECK(reaches_limit == (rows == "first"));
  }
}

TEST_CASE("in training stable Hadamard memory draws rows anew in every pass, of each sequence; else it never does") {
  const torch::NoGradGuard no_grad;
  auto model = enlarged_model({"shm", {{"width", "6"}, {"memory_width", "5"}, {"calibrations", "9"}}}, 40, 4);
  const auto clock = seed_dropout(*model, 3);
  const Tensor input_BTD = torch::randn({1, 40, 6}, torch::kFloat64).expand({3, -1, -1});
  const auto by_steps = [&] {
    MemoryState state = model->initial_state(3);
    std::vector<Tensor> outputs;
    for (const Tensor& input_BD : input_BTD.unbind(1)) outputs.push_back(model->step(input_BD, state));
    return torch::stack(outputs, 1);
  };
  model->eval();
  const Tensor fixed_BTD = model->forward(input_BTD);
  CHECK(fixed_BTD[0].equal(fixed_BTD[1]));
  clock->tick();
  CHECK(model->forward(input_BTD).equal(fixed_BTD));

  model->train();
  const Tensor drawn_BTD = model->forward(input_BTD);
  CHECK(relative_error(drawn_BTD[0], drawn_BTD[1]) > 1e-3);
  CHECK(model->forward(input_BTD).equal(drawn_BTD));  // within a pass step and forward draw the same
  CHECK(relative_error(by_steps(), drawn_BTD) < 1e-10);
  clock->tick();
  const Tensor again_BTD = model->forward(input_BTD);
  CHECK(relative_error(again_BTD, drawn_BTD) > 1e-3);
  CHECK(relative_error(by_steps(), again_BTD) < 1e-10);
  seed_dropout(*model, 4);
  CHECK(relative_error(model->forward(input_BTD), drawn_BTD) > 1e-3);
  auto unseeded = make_backbone(BackboneConfig("shm"), 10);
  CHECK_THROWS_AS(unseeded->forward(torch::zeros({1, 2, 100})), std::logic_error);
}

TEST_CASE("the gradient of a bounded Hadamard memory is 0 through what the bound has changed") {
  const auto leaf = [](double x) { return torch::full({1, 1, 1}, x, torch::kFloat64).requires_grad_(); };
  // C = 1: M becomes first + v k.
  const auto gradients = [&](double first, double limit) {
    const HadamardMemoryVectors x{leaf(0), leaf(0), leaf(2), leaf(3), leaf(5)};
    const Tensor first_BHH = leaf(first);
    const HadamardMemoryResult result = plain_hadamard_memory(x, first_BHH, lengths({1}), limit);
    std::vector<double> numbers{result.last_BHH.item<double>()};
    for (const Tensor& gradient :
         torch::autograd::grad({result.h_BTH.sum()}, {first_BHH, x.value_BTH, x.key_BTH, x.query_BTH}))
      numbers.push_back(gradient.item<double>());
    return numbers;
  };
  CHECK(gradients(1, 100) == std::vector<double>{7, 5, 15, 10, 7});
  CHECK(gradients(1, 7) == std::vector<double>{7, 5, 15, 10, 7});
  CHECK(gradients(1, 6.5) == std::vector<double>{6.5, 0, 0, 0, 6.5});
  CHECK(gradients(-20, 6.5) == std::vector<double>{-6.5, 0, 0, 0, -6.5});
  CHECK(gradients(1, std::numeric_limits<double>::infinity()) == std::vector<double>{7, 5, 15, 10, 7});
}

TEST_CASE("calibrations that always strengthen stay finite over a long episode, with their gradients, by the limit") {
  const auto all_finite = [](const std::string& limit) {
    torch::manual_seed(5);
    auto model =
        make_model({"shm", {{"width", "6"}, {"memory_width", "8"}, {"calibrations", "1"}, {"state_limit", limit}}}, 400,
                   torch::kFloat32);
    {
      // 1 + tanh(1) a step, for every element: 10^98 over the episode. And every element is written.
      const torch::NoGradGuard no_grad;
      auto p = model->named_parameters();
      p["theta"].fill_(1);
      p["calibration.weight"].zero_();
      p["norm.weight"].zero_();
      p["norm.bias"].fill_(1);
      p["calibration.weight"].select(1, 0).fill_(1);
      p["key.weight"].abs_();
    }
    const Tensor output_BTD = model->forward(torch::randn({2, 400, 6}));
    bool finite = output_BTD.isfinite().all().item<bool>();
    output_BTD.sum().backward();
    for (const Tensor& parameter : model->parameters())
      finite = finite && parameter.grad().isfinite().all().item<bool>();
    return finite;
  };
  CHECK(all_finite("100"));
  CHECK(!all_finite("0"));
}

TEST_CASE("stable Hadamard memory begins with Glorot's uniform theta") {
  torch::manual_seed(6);
  const Tensor theta_LH = parameters_by_name(*make_model({"shm", {}}, 10, torch::kFloat32)).at("theta");
  const double bound = std::sqrt(6.0 / (128 + 48));
  CHECK(theta_LH.abs().max().item<double>() <= bound);
  CHECK(std::abs(theta_LH.std().item<double>() / (bound / std::sqrt(3.0)) - 1) < 0.03);
}

TEST_CASE("shm of a config of format 1 is what it was") {
  const ShmOptions published;
  CHECK(published.rows == CalibrationRows::kDrawn);
  CHECK(published.state_limit == 100);
  BackboneConfig before = of_format_1("shm");
  CHECK(before.as<ShmOptions>()->rows == CalibrationRows::kByStep);
  CHECK(before.as<ShmOptions>()->state_limit == 0);
}

TEST_CASE("stable Hadamard memory takes all calibrations about equally often, and costs what its definition does") {
  std::vector<int> taken(128, 0);
  for (std::uint32_t step = 0; step < 12800; ++step) ++taken[static_cast<std::size_t>(plain_row_of_step(step, 128))];
  for (const int count : taken) {  // 100, within five standard deviations of a binomial distribution
    CHECK(count > 50);
    CHECK(count < 150);
  }
  const auto model = make_model({"shm", {}}, 10, torch::kFloat32);
  const ModelCost cost = model->cost();
  const std::int64_t products = 6 * 100 * 48 + 100;
  CHECK(cost.parameters == products + 148 + 200 + 128 * 48);
  CHECK(cost.state_bytes == 8 + 48 * 48 * 4);
  CHECK(cost.multiply_adds_per_step == products + 4 * 48 * 48);
  CHECK(model->supports_learning(torch::kFloat32, torch::kCPU).reason() == "only its memory has kernels");
  CHECK_THROWS_AS((ShmOptions{.memory_width = 0}.check()), UserError);
  CHECK_THROWS_AS((ShmOptions{.calibrations = 0}.check()), UserError);
  CHECK_THROWS_AS((ShmOptions{.state_limit = -1}.check()), UserError);
}
