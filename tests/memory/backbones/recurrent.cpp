#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

TEST_CASE("RNN, LSTM and GRU equal their equations, computed step by step from their named parameters") {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  for (const std::string name : {"rnn", "lstm", "gru"}) {
    CAPTURE(name);
    auto model = make_model({name, {{"width", "7"}}}, 20, torch::kFloat64);
    const Parameters p = parameters_by_name(*model);
    const Tensor x_TD = torch::randn({20, 7}, torch::kFloat64);
    const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
    Tensor h = torch::zeros({7}, torch::kFloat64), c = torch::zeros({7}, torch::kFloat64);
    for (std::int64_t t = 0; t < 20; ++t) {
      const Tensor from_input = p.at(name + ".weight_ih_l0").mv(x_TD[t]) + p.at(name + ".bias_ih_l0");
      const Tensor from_memory = p.at(name + ".weight_hh_l0").mv(h) + p.at(name + ".bias_hh_l0");
      if (name == "lstm") {
        const auto gates = (from_input + from_memory).chunk(4);  // input, forget, candidate, output
        c = plain_sigmoid(gates[1]) * c + plain_sigmoid(gates[0]) * gates[2].tanh();
        h = plain_sigmoid(gates[3]) * c.tanh();
      } else if (name == "rnn") {
        h = (from_input + from_memory).tanh();
      } else {
        const auto x = from_input.chunk(3), m = from_memory.chunk(3);  // reset, update, candidate
        const Tensor update = plain_sigmoid(x[1] + m[1]);
        h = update * h + (1 - update) * (x[2] + plain_sigmoid(x[0] + m[0]) * m[2]).tanh();
      }
      CHECK(relative_error(output_TD[t], h) < 1e-12);
    }
  }
}

TEST_CASE("RNN, LSTM and GRU have the parameters of their equations") {
  for (const auto& [name, gates] : {std::pair<std::string, std::int64_t>{"rnn", 1}, {"lstm", 4}, {"gru", 3}}) {
    auto model = make_model({name, {{"layers", "2"}}}, 10, torch::kFloat32);
    const ModelCost cost = model->cost();
    CHECK(cost.parameters == 2 * gates * (2 * 100 * 100 + 2 * 100));
    CHECK(cost.state_bytes == 2 * 100 * 4 * (name == "lstm" ? 2 : 1));
    CHECK(cost.multiply_adds_per_step == 2 * gates * 2 * 100 * 100);
    // LibTorch's own initialisation, uniform over +-1 / sqrt(width).
    for (const auto& [parameter, value] : parameters_by_name(*model)) {
      CHECK(value.abs().max().item<double>() <= 0.1);
      CHECK(std::abs(value.std().item<double>() - 0.1 / std::sqrt(3.0)) < 0.01);
    }
  }
}

TEST_CASE("orthogonal first weights of RNN, LSTM and GRU are so over all gates together, with biases of zero") {
  for (const auto& [name, gates] : {std::pair<std::string, std::int64_t>{"rnn", 1}, {"lstm", 4}, {"gru", 3}}) {
    for (const char* width : {"24", "100"}) {
      CAPTURE(name);
      torch::manual_seed(3);
      auto model =
          make_model({name, {{"layers", "2"}, {"width", width}, {"first_weights", "orthogonal"}}}, 10, torch::kFloat32);
      int weights = 0, biases = 0;
      for (const auto& [parameter, value] : parameters_by_name(*model)) {
        CAPTURE(parameter);
        if (value.dim() == 1) {
          CHECK(value.abs().max().item<double>() == 0);
          ++biases;
          continue;
        }
        const std::int64_t columns = std::stoi(width);
        CHECK(value.sizes() == torch::IntArrayRef({gates * columns, columns}));
        const Tensor gram = value.t().mm(value);
        CHECK((gram - torch::eye(columns)).abs().max().item<double>() < 1e-5);
        ++weights;
      }
      CHECK(weights == 4);
      CHECK(biases == 4);
      // Random directions, those of the seed.
      torch::manual_seed(4);
      auto other =
          make_model({name, {{"layers", "2"}, {"width", width}, {"first_weights", "orthogonal"}}}, 10, torch::kFloat32);
      const Tensor weight = parameters_by_name(*model).at(name + ".weight_ih_l0");
      CHECK(relative_error(parameters_by_name(*other).at(name + ".weight_ih_l0"), weight) > 0.1);
      CHECK(relative_error(parameters_by_name(*model).at(name + ".weight_hh_l0"), weight) > 0.1);
      CHECK(relative_error(parameters_by_name(*model).at(name + ".weight_ih_l1"), weight) > 0.1);
    }
  }
}
