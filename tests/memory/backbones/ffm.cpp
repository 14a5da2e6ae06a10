#include "memory/backbones/recurrent/ffm.h"

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

TEST_CASE("Fast and Forgetful Memory equals its definition, computed number by number") {
  constexpr std::int64_t kSteps = 30, kTraces = 3, kContexts = 2;
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  auto model = make_model({"ffm", {{"width", "5"}, {"traces", "3"}, {"contexts", "2"}}}, kSteps, torch::kFloat64);
  enlarge_weights(*model);
  const Parameters p = parameters_by_name(*model);
  const Tensor x_TD = torch::randn({kSteps, 5}, torch::kFloat64);
  const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
  const auto map = [&](const std::string& name, const Tensor& x) {
    return p.at(name + ".weight").mv(x) + p.at(name + ".bias");
  };
  std::complex<double> state[kTraces][kContexts] = {};
  for (std::int64_t t = 0; t < kSteps; ++t) {
    const Tensor written = map("input", x_TD[t]) * plain_sigmoid(map("input_gate", x_TD[t]));
    std::vector<double> seen(2 * kTraces * kContexts);
    for (std::int64_t j = 0; j < kTraces; ++j)
      for (std::int64_t k = 0; k < kContexts; ++k) {
        const std::complex<double> exponent{-std::abs(p.at("decay")[j].item<double>()),
                                            -p.at("frequency")[k].item<double>()};
        state[j][k] = std::exp(exponent) * state[j][k] + written[j].item<double>();
        seen[static_cast<std::size_t>(j * kContexts + k)] = state[j][k].real();
        seen[static_cast<std::size_t>((kTraces + j) * kContexts + k)] = state[j][k].imag();
      }
    const Tensor read = map("read", torch::tensor(seen, torch::kFloat64)), centred = read - read.mean();
    const Tensor normed = centred / (centred.square().mean() + 1e-5).sqrt();
    const Tensor gate = plain_sigmoid(map("output_gate", x_TD[t]));
    CHECK(relative_error(output_TD[t], gate * normed + (1 - gate) * map("skip", x_TD[t])) < 1e-10);
  }
}

TEST_CASE("Fast and Forgetful Memory has the published first traces, and the cost of its definition") {
  auto model = make_model({"ffm", {}}, 10, torch::kFloat32);
  const Parameters p = parameters_by_name(*model);
  // The slowest trace has 1% left after 1,024 steps, the fastest half after one.
  CHECK(std::abs(std::exp(-1024 * p.at("decay")[0].item<double>()) - 0.01) < 1e-5);
  CHECK(std::abs(std::exp(-p.at("decay")[31].item<double>()) - 0.5) < 1e-6);
  CHECK(std::abs(2 * M_PI / p.at("frequency")[3].item<double>() - 1024) < 1e-2);
  CHECK(std::abs(p.at("frequency")[0].item<double>() - 2 * M_PI) < 1e-5);
  const ModelCost cost = model->cost();
  const std::int64_t products = 2 * 100 * 32 + 2 * 32 * 4 * 100 + 2 * 100 * 100;
  CHECK(cost.parameters == products + 2 * 32 + 3 * 100 + 32 + 4);
  CHECK(cost.state_bytes == 32 * 4 * 8);
  CHECK(cost.multiply_adds_per_step == products + 4 * 32 * 4);
  CHECK_THROWS_AS((FfmOptions{.traces = 0}.check()), UserError);
  CHECK_THROWS_AS((FfmOptions{.contexts = 0}.check()), UserError);
  CHECK_THROWS_AS((FfmOptions{.longest = 1}.check()), UserError);
}
