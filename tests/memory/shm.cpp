#include "memory/shm.h"

#include <cstdint>
#include <set>

#include "base/error.h"
#include "tests/memory/definition.h"

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
  for (const std::int64_t calibrations : {1, 7}) {
    torch::manual_seed(1);
    const torch::NoGradGuard no_grad;
    auto model =
        make_model({"shm", {{"width", "5"}, {"memory_width", "4"}, {"calibrations", std::to_string(calibrations)}}},
                   kSteps, torch::kFloat64);
    enlarge_weights(*model);
    const Parameters p = parameters_by_name(*model);
    const Tensor x_TD = torch::randn({kSteps, 5}, torch::kFloat64);
    const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
    Tensor memory = torch::zeros({kMemory, kMemory}, torch::kFloat64);
    std::set<std::int64_t> rows;
    for (std::int64_t t = 0; t < kSteps; ++t) {
      const Tensor centred = x_TD[t] - x_TD[t].mean();
      const Tensor n = centred / (centred.square().mean() + 1e-5).sqrt() * p.at("norm.weight") + p.at("norm.bias");
      const auto map = [&](const std::string& name) { return p.at(name + ".weight").mv(n); };
      const auto feature = [&](const std::string& name) {
        const Tensor positive = map(name).clamp_min(0);
        return positive / (positive.sum() + 1e-5);
      };
      const std::int64_t row =
          plain_row_of_step(static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(calibrations));
      rows.insert(row);
      const Tensor calibration = 1 + torch::outer(p.at("theta")[row], map("calibration")).tanh();
      memory = memory * calibration + torch::outer(plain_sigmoid(map("strength")) * map("value"), feature("key"));
      const Tensor answer = memory.mv(feature("query")) + map("shortcut") + p.at("shortcut.bias");
      CHECK(relative_error(output_TD[t], p.at("output.weight").mv(answer) + p.at("output.bias")) < 1e-10);
    }
    CHECK(static_cast<std::int64_t>(rows.size()) == calibrations);
  }
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
  CHECK(model->learning_kernels(torch::kFloat32, torch::kCPU).reason() == "only its memory has kernels");
  CHECK_THROWS_AS((ShmOptions{.memory_width = 0}.check()), UserError);
  CHECK_THROWS_AS((ShmOptions{.calibrations = 0}.check()), UserError);
}
