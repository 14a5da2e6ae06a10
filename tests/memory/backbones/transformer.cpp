#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

namespace {

Tensor plain_gelu(const Tensor& x) { return 0.5 * x * (1 + (std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))).tanh()); }

}  // namespace

TEST_CASE("the Transformer equals its definition, computed step by step from its named parameters") {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  auto model = make_model({"transformer", {{"width", "12"}, {"layers", "2"}}}, 20, torch::kFloat64);
  enlarge_weights(*model);
  const Parameters p = parameters_by_name(*model);
  Tensor x_TD = torch::randn({20, 12}, torch::kFloat64);
  const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
  for (std::int64_t t = 0; t < 20; ++t)
    for (std::int64_t i = 0; i < 6; ++i) {
      const double angle = static_cast<double>(t) / std::pow(10000.0, static_cast<double>(i) / 6);
      x_TD[t][2 * i] += std::sin(angle);
      x_TD[t][2 * i + 1] += std::cos(angle);
    }
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    const auto linear = [&](const Tensor& x, const std::string& name) {
      return x.matmul(p.at(block + name + ".weight").t()) + p.at(block + name + ".bias");
    };
    const Tensor normed = plain_layer_norm(x_TD, p, block + "attention_norm");
    std::vector<Tensor> heads;
    for (std::int64_t h = 0; h < 2; ++h) {
      const auto head = [&](const char* name) {
        return linear(normed, std::string("attention.") + name).narrow(1, 6 * h, 6);
      };
      heads.push_back(window_attention(head("query"), head("key"), head("value"), 20));
    }
    x_TD = x_TD + linear(torch::cat(heads, 1), "attention.output");
    x_TD = x_TD + linear(plain_gelu(linear(plain_layer_norm(x_TD, p, block + "mlp_norm"), "mlp.up")), "mlp.down");
  }
  // The position code is kept in float32.
  CHECK(relative_error(output_TD, plain_layer_norm(x_TD, p, "norm")) < 1e-6);
}

TEST_CASE("the Transformer has the parameters of its definition, initialised as defined") {
  torch::manual_seed(2);
  auto model = make_model({"transformer", {}}, 781, torch::kFloat32);
  const Parameters p = parameters_by_name(*model);
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    for (const char* name :
         {"attention.query", "attention.key", "attention.value", "attention.output", "mlp.up", "mlp.down"}) {
      check_normal(p.at(block + name + ".weight"), 0.02);
      CHECK((p.at(block + name + ".bias") == 0).all().item<bool>());
    }
    for (const char* name : {"attention_norm", "mlp_norm"}) {
      CHECK((p.at(block + name + ".weight") == 1).all().item<bool>());
      CHECK((p.at(block + name + ".bias") == 0).all().item<bool>());
    }
  }
  const std::int64_t block = 4 * (100 * 100 + 100) + (100 * 400 + 400) + (400 * 100 + 100) + 2 * 2 * 100;
  const ModelCost cost = model->cost();
  CHECK(cost.parameters == 2 * block + 2 * 100);
  CHECK(cost.state_bytes == 2 * 2 * 781 * 100 * 4 + 8);
  CHECK(cost.multiply_adds_per_step == 2 * (4 * 100 * 100 + 2 * 100 * 400 + 2 * 781 * 100));
}

TEST_CASE("an episode longer than the Transformer's cache is refused with its length and the bound") {
  torch::manual_seed(3);
  auto model = make_model({"transformer", {{"width", "12"}}}, 5, torch::kFloat32);
  CHECK_NOTHROW(model->forward(torch::zeros({2, 5, 12})));
  const char* const message =
      "a sequence of 6 steps exceeds the transformer's cache of 5; build it for longer episodes";
  CHECK_THROWS_WITH_AS(model->forward(torch::zeros({2, 6, 12})), message, UserError);
  MemoryState state = model->initial_state(2);
  for (int t = 0; t < 3; ++t) model->step(torch::zeros({2, 12}), state);
  CHECK_NOTHROW(model->forward(torch::zeros({2, 4, 12}), state, lengths({2, 1})));
  CHECK_THROWS_WITH_AS(model->forward(torch::zeros({2, 4, 12}), state, lengths({3, 1})), message, UserError);
  for (int t = 3; t < 5; ++t) model->step(torch::zeros({2, 12}), state);
  CHECK_THROWS_WITH_AS(model->step(torch::zeros({2, 12}), state), message, UserError);
  state.reset_rows(torch::ones({2}, torch::kBool));
  CHECK_NOTHROW(model->step(torch::zeros({2, 12}), state));
  CHECK_THROWS_AS(make_model({"transformer", {}}, 0, torch::kFloat32), UserError);
}
