#include "memory/backbones/attention/gtrxl.h"

#include <algorithm>
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

// The sinusoidal code of a distance: sines, then cosines, of distance / 10000^(2f / D).
Tensor distance_code(std::int64_t distance, std::int64_t width) {
  std::vector<double> sines, cosines;
  for (std::int64_t f = 0; 2 * f < width; ++f) {
    const double angle =
        static_cast<double>(distance) / std::pow(10000.0, 2.0 * static_cast<double>(f) / static_cast<double>(width));
    sines.push_back(std::sin(angle));
    cosines.push_back(std::cos(angle));
  }
  return torch::cat({torch::tensor(sines, torch::kFloat64), torch::tensor(cosines, torch::kFloat64)});
}

// x <- gate(x, y) for one step.
Tensor gated(const Tensor& x, const Tensor& y, const Parameters& p, const std::string& name) {
  const std::int64_t width = x.size(0);
  const auto of = [&](const char* map, std::int64_t part, const Tensor& input) {
    return p.at(name + map + ".weight").narrow(0, part * width, width).mv(input);
  };
  const Tensor r = plain_sigmoid(of("of_new", 0, y) + of("of_old", 0, x));
  const Tensor z = plain_sigmoid(of("of_new", 1, y) + of("of_old", 1, x) - p.at(name + "bias"));
  const Tensor h = (of("of_new", 2, y) + of("of_reset", 0, r * x)).tanh();
  return (1 - z) * x + z * h;
}

}  // namespace

TEST_CASE("GTrXL equals its definition, computed step by step from its named parameters") {
  constexpr std::int64_t kSteps = 25, kHeads = 2;
  for (const std::int64_t width : {8, 6})
    for (const std::int64_t window : {4, 64}) {
      CAPTURE(width);
      CAPTURE(window);
      auto model = enlarged_model(
          {"gtrxl",
           {{"width", std::to_string(width)}, {"layers", "2"}, {"mlp_width", "5"}, {"window", std::to_string(window)}}},
          kSteps, 1);
      Parameters p = parameters_by_name(*model);
      for (auto& [name, value] : p) value = value.clone().requires_grad_();
      const Tensor input_TD = torch::randn({kSteps, width}, torch::kFloat64).requires_grad_();
      Tensor x_TD = input_TD;
      const std::int64_t head_width = width / kHeads;
      std::vector<std::vector<Tensor>> weights_by_layer;
      for (const std::string layer : {"layers.0.", "layers.1."}) {
        const Tensor normed = plain_layer_norm(x_TD, p, layer + "attention_norm");
        const auto map = [&](const char* name, const Tensor& x) {
          return p.at(layer + "attention." + name + ".weight").mv(x);
        };
        std::vector<Tensor> next, weights_T;  // the weights [H, ages]
        for (std::int64_t t = 0; t < kSteps; ++t) {
          std::vector<Tensor> heads, weights;
          for (std::int64_t h = 0; h < kHeads; ++h) {
            const auto head = [&](const Tensor& x) { return x.narrow(0, h * head_width, head_width); };
            const Tensor query = head(map("query", normed[t]));
            std::vector<Tensor> scores, values;
            for (std::int64_t u = std::max<std::int64_t>(0, t - window + 1); u <= t; ++u) {
              const Tensor content =
                  (query + p.at(layer + "attention.content_bias")[h]).dot(head(map("key", normed[u])));
              const Tensor distance = (query + p.at(layer + "attention.position_bias")[h])
                                          .dot(head(map("position", distance_code(t - u, width))));
              scores.push_back((content + distance) / std::sqrt(static_cast<double>(head_width)));
              values.push_back(head(map("value", normed[u])));
            }
            weights.push_back(torch::stack(scores).softmax(0));
            heads.push_back(torch::stack(values).t().mv(weights.back()));
          }
          weights_T.push_back(torch::stack(weights).flip(1).detach());
          const Tensor y = gated(x_TD[t], map("output", torch::cat(heads)).clamp_min(0), p, layer + "attention_gate.");
          const Tensor inner =
              (p.at(layer + "up.weight").mv(plain_layer_norm(y, p, layer + "mlp_norm")) + p.at(layer + "up.bias"))
                  .clamp_min(0);
          const Tensor made = p.at(layer + "down.weight").mv(inner) + p.at(layer + "down.bias");
          next.push_back(gated(y, made.clamp_min(0), p, layer + "mlp_gate."));
        }
        x_TD = torch::stack(next);
        weights_by_layer.push_back(weights_T);
      }
      // What a step says of its attention.
      MemoryState state = model->initial_state(1);
      for (std::int64_t t = 0; t < kSteps; ++t) {
        MemoryView view;
        model->step(input_TD.detach().narrow(0, t, 1), state, view);
        for (std::size_t layer = 0; layer < 2; ++layer) {
          const Tensor& expected_HA = weights_by_layer[layer][static_cast<std::size_t>(t)];
          const Tensor shown_HA = view.layers[layer].attention_BHA[0].narrow(1, 0, expected_HA.size(1));
          CHECK(relative_error(shown_HA, expected_HA) < 1e-10);
        }
      }
      // Gradients too, whole and through a carried state: differences of nearby losses, which the tests of all
      // backbones take, would stride over the kinks of relu.
      const Tensor weight_TD = torch::randn({kSteps, width}, torch::kFloat64);
      (x_TD * weight_TD).sum().backward();
      for (const std::int64_t split : {0, 9}) {
        CAPTURE(split);
        model->zero_grad();
        const Tensor input_1TD = input_TD.detach().unsqueeze(0).clone().requires_grad_();
        const auto first = model->forward(input_1TD.narrow(1, 0, split), lengths({split}));
        const auto second =
            model->forward(input_1TD.narrow(1, split, kSteps - split), first.final_state, lengths({kSteps - split}));
        const Tensor output_TD = torch::cat({first.output_BTD, second.output_BTD}, 1).squeeze(0);
        CHECK(relative_error(output_TD.detach(), x_TD.detach()) < 1e-10);
        (output_TD * weight_TD).sum().backward();
        CHECK(relative_error(input_1TD.grad().squeeze(0), input_TD.grad()) < 1e-9);
        for (const auto& item : model->named_parameters()) {
          CAPTURE(item.key());
          REQUIRE(p.at(item.key()).grad().defined());
          CHECK(relative_error(item.value().grad(), p.at(item.key()).grad()) < 1e-9);
        }
      }
    }
}

TEST_CASE("GTrXL has the parameters, the state and the products of its definition, and begins near the identity") {
  torch::manual_seed(2);
  auto model = make_model({"gtrxl", {}}, 10, torch::kFloat32);
  const ModelCost cost = model->cost();
  const std::int64_t mlp = 2 * 100 * 400, attention = 5 * 100 * 100 + 2 * 100, gates = 2 * (6 * 100 * 100 + 100);
  CHECK(cost.parameters == 2 * (mlp + 500 + attention + gates + 4 * 100));
  CHECK(cost.mlp_parameters == 2 * (mlp + 500));
  CHECK(cost.state_bytes == 8 + 2 * 2 * 64 * 100 * 4);
  CHECK(cost.multiply_adds_per_step == 2 * (mlp + 5 * 100 * 100 + 64 * (100 + 2 * 100 + 100) + 12 * 100 * 100));
  const Parameters p = parameters_by_name(*model);
  check_normal(p.at("layers.1.attention.query.weight"), 0.02);
  check_normal(p.at("layers.1.mlp_gate.of_new.weight"), 0.02);
  CHECK((p.at("layers.0.attention_gate.bias") == 2).all().item<bool>());
  // Four gates pass all but sigmoid(-2) = 0.12 of what they are given; what they add is small at first.
  const Tensor x_BTD = torch::randn({2, 20, 100});
  model->eval();
  CHECK(relative_error(model->forward(x_BTD), std::pow(1 - 1 / (1 + std::exp(2.0)), 4) * x_BTD) < 0.15);
}

TEST_CASE("options of GTrXL out of bounds are refused") {
  CHECK_THROWS_AS((GtrxlOptions{.window = 0}.check()), UserError);
  CHECK_THROWS_AS((GtrxlOptions{.layers = 0}.check()), UserError);
  CHECK_THROWS_AS((GtrxlOptions{.gate_bias = 11}.check()), UserError);
}
