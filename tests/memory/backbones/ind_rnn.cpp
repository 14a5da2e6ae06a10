#include "memory/backbones/recurrent/ind_rnn.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

namespace {

std::string layer(std::int64_t number) { return "layers." + std::to_string(number) + "."; }

// The recurrence, channel by channel and number by number, from a state of zeros: [T, D].
Tensor defined_output(const Parameters& p, Tensor x_TD, std::int64_t layers, double bound) {
  for (std::int64_t l = 0; l < layers; ++l) {
    const Tensor weight_DD = p.at(layer(l) + "input.weight"), bias_D = p.at(layer(l) + "input.bias");
    Tensor output_TD = torch::zeros_like(x_TD);
    for (std::int64_t d = 0; d < x_TD.size(1); ++d) {
      const double own = std::clamp(p.at(layer(l) + "recurrent")[d].item<double>(), -bound, bound);
      double h = 0;
      for (std::int64_t t = 0; t < x_TD.size(0); ++t) {
        h = std::max(0.0, weight_DD[d].dot(x_TD[t]).item<double>() + bias_D[d].item<double>() + own * h);
        output_TD[t][d] = h;
      }
    }
    x_TD = output_TD;
  }
  return x_TD;
}

}  // namespace

TEST_CASE("IndRNN equals its definition, computed number by number") {
  const torch::NoGradGuard no_grad;
  // With a bound of 2 after one step, and with one that most of the enlarged weights are beyond.
  for (const auto& [longest, bound] : {std::pair<std::string, double>{"1", 2}, {"1024", std::pow(2.0, 1.0 / 1024)}}) {
    CAPTURE(longest);
    torch::manual_seed(1);
    auto model = make_model({"ind_rnn", {{"width", "5"}, {"layers", "3"}, {"longest", longest}}}, 20, torch::kFloat64);
    enlarge_weights(*model);
    for (auto& item : model->named_parameters())
      if (item.key().ends_with("recurrent")) item.value().add_(0.5);
    const Parameters p = parameters_by_name(*model);
    CHECK((p.at(layer(0) + "recurrent").abs() > 1.001).any().item<bool>());
    const Tensor x_TD = torch::randn({20, 5}, torch::kFloat64);
    const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
    CHECK((output_TD > 0).any().item<bool>());
    CHECK(relative_error(output_TD, defined_output(p, x_TD, 3, bound)) < 1e-12);
  }
}

TEST_CASE("IndRNN's gradients are those of its definition where no unit is at its corner") {
  torch::manual_seed(2);
  auto model = make_model({"ind_rnn", {{"width", "4"}, {"longest", "1"}}}, 12, torch::kFloat64);
  const Tensor x_TD = torch::randn({12, 4}, torch::kFloat64), weight_TD = torch::randn({12, 4}, torch::kFloat64);
  (model->forward(x_TD.unsqueeze(0)).squeeze(0) * weight_TD).sum().backward();
  const torch::NoGradGuard no_grad;
  const auto loss = [&] { return (model->forward(x_TD.unsqueeze(0)).squeeze(0) * weight_TD).sum().item<double>(); };
  constexpr double kShift = 1e-6;
  for (auto& item : model->named_parameters()) {
    CAPTURE(item.key());
    const Tensor direction = torch::randn_like(item.value());
    item.value().add_(direction, kShift);
    const double above = loss();
    item.value().add_(direction, -2 * kShift);
    const double below = loss();
    item.value().add_(direction, kShift);
    const double expected = (above - below) / (2 * kShift);
    CHECK((item.value().grad() * direction).sum().item<double>() == doctest::Approx(expected).epsilon(1e-5));
  }
}

TEST_CASE("IndRNN's recurrent weights are put back between their bounds where it learns, and there alone") {
  torch::manual_seed(3);
  auto model = make_model({"ind_rnn", {{"width", "4"}, {"longest", "2"}}}, 10, torch::kFloat64);
  Tensor recurrent_D = model->named_parameters()["layers.1.recurrent"];
  const Tensor outside = torch::tensor({3.0, -5.0, 1.0, std::sqrt(2.0)}, torch::kFloat64);
  const auto set = [&] {
    const torch::NoGradGuard no_grad;
    recurrent_D.copy_(outside);
  };
  set();
  const Tensor x_BTD = torch::randn({2, 6, 4}, torch::kFloat64);
  Tensor seen;
  {
    const torch::NoGradGuard no_grad;
    seen = model->forward(x_BTD);
  }
  CHECK(torch::equal(recurrent_D, outside));
  // Two passes before one backward pass, as losses over two batches take them.
  const Tensor learnt = model->forward(x_BTD), again = model->forward(x_BTD + 1);
  CHECK(torch::equal(seen, learnt));
  const double bound = std::sqrt(2.0);
  CHECK((recurrent_D - torch::tensor({bound, -bound, 1.0, bound}, torch::kFloat64)).abs().max().item<double>() < 1e-12);
  (learnt.sum() + again.sum()).backward();
  // A weight at its bound still learns.
  CHECK(recurrent_D.grad()[0].item<double>() != 0);
}

TEST_CASE("IndRNN begins as POPGym's, and has the cost of its definition") {
  torch::manual_seed(4);
  auto model = make_model({"ind_rnn", {{"width", "400"}}}, 10, torch::kFloat32);
  const auto within = [](const Tensor& x, double low, double high) {
    return x.min().item<double>() >= low && x.max().item<double>() <= high;
  };
  for (std::int64_t l = 0; l < 2; ++l) {
    const Parameters p = parameters_by_name(*model);
    // Linear maps are LibTorch's, U(+-1 / sqrt(width)); to their biases those of the cell are added, U(0, 1).
    CHECK(within(p.at(layer(l) + "input.weight"), -0.05, 0.05));
    CHECK(std::abs(p.at(layer(l) + "input.weight").std().item<double>() - 0.05 / std::sqrt(3.0)) < 1e-3);
    CHECK(within(p.at(layer(l) + "input.bias"), -0.05, 1.05));
    CHECK(within(p.at(layer(l) + "recurrent"), 0, 1));
    for (const char* name : {"input.bias", "recurrent"}) {
      CHECK(std::abs(p.at(layer(l) + name).mean().item<double>() - 0.5) < 0.08);
      CHECK(std::abs(p.at(layer(l) + name).std().item<double>() - std::sqrt(1 / 12.0)) < 0.04);
    }
  }
  const ModelCost cost = make_model({"ind_rnn", {}}, 10, torch::kFloat32)->cost();
  CHECK(cost.parameters == 2 * (100 * 100 + 2 * 100));
  CHECK(cost.state_bytes == 2 * 100 * 4);
  CHECK(cost.multiply_adds_per_step == 2 * (100 * 100 + 100));
  CHECK_THROWS_AS((IndRnnOptions{.layers = 0}.check()), UserError);
  CHECK_THROWS_AS((IndRnnOptions{.longest = 0}.check()), UserError);
}
