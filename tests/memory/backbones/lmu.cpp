#include "memory/backbones/recurrent/lmu.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

namespace {

// m(1) of the differential equation of the memory, theta m' = A m + B u with u constant, by small steps of Runge and
// Kutta: what one step of the discrete system must give (Voelker et al. 2019, equations 1 and 2).
std::vector<double> integrated(std::vector<double> m, double u, double theta) {
  const std::size_t order = m.size();
  const auto slope = [&](const std::vector<double>& at) {
    std::vector<double> change(order);
    for (std::size_t i = 0; i < order; ++i) {
      double sum = (i % 2 == 0 ? 1 : -1) * u;
      for (std::size_t j = 0; j < order; ++j) {
        const double a = i < j ? -1 : ((i - j) % 2 == 0 ? -1 : 1);
        sum += a * at[j];
      }
      change[i] = (2.0 * static_cast<double>(i) + 1) / theta * sum;
    }
    return change;
  };
  constexpr int kParts = 400;
  const auto moved = [&](const std::vector<double>& by, double part) {
    std::vector<double> at = m;
    for (std::size_t i = 0; i < order; ++i) at[i] += part / kParts * by[i];
    return at;
  };
  for (int part = 0; part < kParts; ++part) {
    const auto first = slope(m), second = slope(moved(first, 0.5)), third = slope(moved(second, 0.5)),
               fourth = slope(moved(third, 1));
    for (std::size_t i = 0; i < order; ++i)
      m[i] += (first[i] + 2 * second[i] + 2 * third[i] + fourth[i]) / (6 * kParts);
  }
  return m;
}

}  // namespace

TEST_CASE("LMU equals its definition, the memory by its differential equation") {
  constexpr std::int64_t kSteps = 15, kWidth = 5, kOrder = 4;
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  auto model = make_model({"lmu", {{"width", "5"}, {"memory_width", "4"}, {"window", "6"}}}, kSteps, torch::kFloat64);
  enlarge_weights(*model);
  const Parameters p = parameters_by_name(*model);
  const Tensor x_TD = torch::randn({kSteps, kWidth}, torch::kFloat64);
  const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
  Tensor h = torch::zeros({kWidth}, torch::kFloat64);
  std::vector<double> m(kOrder, 0.0);
  for (std::int64_t t = 0; t < kSteps; ++t) {
    const double u = (p.at("input_encoder").dot(x_TD[t]) + p.at("hidden_encoder").dot(h) +
                      p.at("memory_encoder").dot(torch::tensor(m, torch::kFloat64)))
                         .item<double>();
    m = integrated(m, u, 6);
    h = (p.at("input.weight").mv(x_TD[t]) + p.at("hidden").mv(h) + p.at("memory").mv(torch::tensor(m, torch::kFloat64)))
            .tanh();
    // A and B are kept in float32.
    CHECK(relative_error(output_TD[t], h) < 1e-5);
  }
}

// The window's shape: m_i are the coefficients of shifted Legendre polynomials of what u was, so that a constant signal
// of a whole window and more leaves the first alone (their equation 3).
TEST_CASE("LMU's memory of a constant signal is the constant") {
  const torch::NoGradGuard no_grad;
  auto model = make_model({"lmu", {{"width", "2"}, {"memory_width", "6"}, {"window", "20"}}}, 200, torch::kFloat64);
  for (auto& item : model->named_parameters()) item.value().zero_();
  model->named_parameters()["input_encoder"].copy_(torch::tensor({1.0, 0.0}, torch::kFloat64));
  MemoryState state = model->initial_state(1);
  for (int t = 0; t < 200; ++t) model->step(torch::tensor({{0.7, -3.0}}, torch::kFloat64), state);
  const Tensor m_M = state.tensors[1][0];
  CHECK(m_M[0].item<double>() == doctest::Approx(0.7).epsilon(1e-4));
  CHECK(m_M.narrow(0, 1, 5).abs().max().item<double>() < 1e-4);
}

TEST_CASE("LMU begins as POPGym's, and has the cost of its definition") {
  torch::manual_seed(2);
  auto model = make_model({"lmu", {{"width", "300"}, {"memory_width", "75"}}}, 10, torch::kFloat32);
  const Parameters p = parameters_by_name(*model);
  for (const char* name : {"input_encoder", "hidden_encoder"}) {
    CHECK(p.at(name).abs().max().item<double>() <= 0.1);
    CHECK(std::abs(p.at(name).std().item<double>() - 0.1 / std::sqrt(3.0)) < 0.01);
  }
  CHECK(p.at("memory_encoder").eq(0).all().item<bool>());
  check_normal(p.at("input.weight"), std::sqrt(2.0 / 600));
  check_normal(p.at("hidden"), std::sqrt(2.0 / 600));
  check_normal(p.at("memory"), std::sqrt(2.0 / 375));
  const ModelCost cost = model->cost();
  CHECK(cost.parameters == 2 * 300 * 300 + 300 * 75 + 2 * 300 + 75);
  CHECK(cost.state_bytes == (300 + 75) * 4);
  CHECK(cost.multiply_adds_per_step == 2 * 300 * 300 + 300 * 75 + 2 * 300 + 75 + 75 * 75 + 75);
  // As many polynomials as the width, unless told otherwise; the matrices of the memory are not trained.
  CHECK(LmuOptions{}.coefficients() == 100);
  CHECK(make_model({"lmu", {}}, 10, torch::kFloat32)->cost().parameters == 3 * 100 * 100 + 3 * 100);
  CHECK_THROWS_AS((LmuOptions{.memory_width = -1}.check()), UserError);
  CHECK_THROWS_AS((LmuOptions{.window = 0}.check()), UserError);
}
