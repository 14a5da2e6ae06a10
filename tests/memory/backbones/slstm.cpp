#include "memory/backbones/recurrent/slstm.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

TEST_CASE("sLSTM equals its equations, of which the stabiliser is no part") {
  constexpr std::int64_t kSteps = 25, kWidth = 6, kHeads = 2, kHead = 3;
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  const Variant variant{"slstm", {{"width", "6"}, {"layers", "2"}, {"mlp_width", "7"}}};
  auto model = make_model(variant, kSteps, torch::kFloat64);
  enlarge_weights(*model);
  const Parameters p = parameters_by_name(*model);
  Tensor x_TD = torch::randn({kSteps, kWidth}, torch::kFloat64);
  const Tensor output_TD = model->forward(x_TD.unsqueeze(0)).squeeze(0);
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    const Tensor normed_TD = plain_rms_norm(x_TD, p.at(block + "mixer_norm.weight"));
    std::vector<Tensor> heads;
    for (std::int64_t head = 0; head < kHeads; ++head) {
      Tensor h = torch::zeros({kHead}, torch::kFloat64), c = h, n = h;
      std::vector<Tensor> outputs;
      for (std::int64_t t = 0; t < kSteps; ++t) {
        const auto gate = [&](std::int64_t index) {
          const std::int64_t row = index * kHead;
          return p.at(block + "mixer.input.weight").narrow(0, 4 * kHead * head + row, kHead).mv(normed_TD[t]) +
                 p.at(block + "mixer.recurrent")[head].narrow(1, row, kHead).t().mv(h) +
                 p.at(block + "mixer.bias")[head].narrow(0, row, kHead);
        };
        const Tensor input = gate(0).exp(), forget = plain_sigmoid(gate(1)), candidate = gate(2).tanh(),
                     output = plain_sigmoid(gate(3));
        c = forget * c + input * candidate;
        n = forget * n + input;
        h = output * c / n;
        outputs.push_back(h);
      }
      heads.push_back(plain_rms_norm(torch::stack(outputs), p.at(block + "mixer.head_norm.weight")));
    }
    x_TD = x_TD + torch::cat(heads, 1);
    x_TD = x_TD + swiglu(plain_rms_norm(x_TD, p.at(block + "mlp_norm.weight")), p, block + "mlp.");
  }
  CHECK(relative_error(output_TD, plain_rms_norm(x_TD, p.at("norm.weight"))) < 1e-10);
}

TEST_CASE("sLSTM stays finite, with its gradients, where its gates are far beyond what an exponential holds") {
  torch::manual_seed(2);
  auto model = make_model({"slstm", {{"width", "6"}}}, 40, torch::kFloat32);
  auto weight = model->named_parameters()["blocks.0.mixer.input.weight"];
  {
    const torch::NoGradGuard no_grad;
    weight.normal_(0, 200);  // gates of some hundreds; exp(89) overflows
  }
  const Tensor output_BTD = model->forward(torch::randn({3, 40, 6}));
  CHECK(output_BTD.isfinite().all().item<bool>());
  output_BTD.sum().backward();
  for (const Tensor& parameter : model->parameters()) CHECK(parameter.grad().isfinite().all().item<bool>());
}

TEST_CASE("sLSTM's first forget gates fall from 5 to -7 by a power that grows with the layer, and R is zero") {
  const auto first = [](const Variant::Settings& settings) {
    torch::manual_seed(4);
    return parameters_by_name(*make_model({"slstm", settings}, 10, torch::kFloat32));
  };
  const auto check = [](const Parameters& p, int layer, double exponent) {
    CAPTURE(layer);
    const std::string mixer = "blocks." + std::to_string(layer) + ".mixer.";
    CHECK(p.at(mixer + "recurrent").abs().max().item<double>() == 0);
    for (std::int64_t head = 0; head < 2; ++head)
      for (std::int64_t i = 0; i < 50; ++i) {
        const double expected = 5 - 12 * std::pow(static_cast<double>(i) / 49, exponent);
        CHECK(std::abs(p.at(mixer + "bias")[head][50 + i].item<double>() - expected) < 1e-5);
      }
  };
  const Parameters three = first({{"layers", "3"}});
  check(three, 0, 0.3);
  check(three, 1, 0.95);
  check(three, 2, 1.6);
  check(first({{"layers", "1"}}), 0, 0.3);
  // One channel a head.
  const Tensor bias = first({{"width", "2"}, {"layers", "1"}}).at("blocks.0.mixer.bias");
  CHECK(bias.select(1, 1).equal(torch::full({2}, 5.0f)));
  // In a stack the place among all its layers counts, and equal entries are told apart.
  torch::manual_seed(4);
  const Parameters stack =
      parameters_by_name(*make_model({"stack", {{"stack", "slstm,min_gru,slstm"}}}, 10, torch::kFloat32));
  check(stack, 0, 0.3);
  check(stack, 2, 1.6);
  CHECK(SlstmOptions{}.first_weights == SlstmWeights::kPowerLaw);
  BackboneConfig before = of_format_1("slstm");
  CHECK(before.as<SlstmOptions>()->first_weights == SlstmWeights::kLinear);
}

TEST_CASE("sLSTM has the state and the cost that its page says, and the linear first forget gates if asked for") {
  torch::manual_seed(3);
  auto model = make_model({"slstm", {{"layers", "1"}, {"first_weights", "linear"}}}, 10, torch::kFloat32);
  const ModelCost cost = model->cost();
  CHECK(cost.parameters == 4 * 100 * 150 + 4 * 100 + 50 + 3 * 100 * 512 + 3 * 100);
  CHECK(cost.state_bytes == 4 * 100 * 4);
  CHECK(cost.multiply_adds_per_step == 4 * 100 * 150 + 3 * 100 * 512);
  const Parameters p = parameters_by_name(*model);
  check_normal(p.at("blocks.0.mixer.input.weight"), 0.02);
  check_normal(p.at("blocks.0.mixer.recurrent"), 0.02);
  const Tensor bias_HX = p.at("blocks.0.mixer.bias");
  CHECK(torch::allclose(bias_HX[1].narrow(0, 50, 50), torch::linspace(3, 6, 50)));
  CHECK(bias_HX.narrow(1, 0, 50).abs().max().item<double>() == 0);
  CHECK(bias_HX.narrow(1, 100, 100).abs().max().item<double>() == 0);
  CHECK(model->supports_learning(torch::kFloat32, torch::kCPU).reason() == "only its recurrence has kernels");
  CHECK_THROWS_AS((SlstmOptions{{.width = 30}, /*layers=*/2, /*heads=*/4}.check()), UserError);
  CHECK_THROWS_AS((SlstmOptions{.layers = 0}.check()), UserError);
}
