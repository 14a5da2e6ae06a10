// Elman network, GRU, LSTM and LMU by the loops for a CPU, against what LibTorch computes of them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

struct Learned {
  Tensor output_BTD;
  std::vector<Tensor> gradients;  // of the input, then of the weights
};

// Of a loss that reads the rows' own steps alone.
Learned learn(SequenceModel& model, const Tensor& given_BTD, const Tensor& lengths_B) {
  const Tensor input_BTD = given_BTD.clone().requires_grad_();
  const Tensor output_BTD = model.forward_fresh(input_BTD, lengths_B);
  const Tensor valid_BT1 = (torch::arange(given_BTD.size(1)) < lengths_B.unsqueeze(1)).unsqueeze(2);
  const Tensor weight_BTD = torch::linspace(-7, 7, output_BTD.numel(), given_BTD.options()).view_as(output_BTD).sin();
  std::vector<Tensor> inputs = model.parameters();
  inputs.insert(inputs.begin(), input_BTD);
  const Tensor kept_BTD = torch::where(valid_BT1, output_BTD, 0);
  return {kept_BTD.detach(), torch::autograd::grad({(kept_BTD * weight_BTD).sum()}, inputs)};
}

}  // namespace

TEST_CASE("Elman network, GRU, LSTM and LMU learn on a CPU as by LibTorch, from rows of all lengths") {
  torch::manual_seed(3);
  for (const std::string name : {"rnn", "gru", "lstm", "lmu"})
    for (const std::string width : {"1", "7", "32", "50"})
      for (const std::int64_t batch : {1, 31, 70}) {
        CAPTURE(name);
        CAPTURE(width);
        CAPTURE(batch);
        auto model = make_model(
            {name, {{"width", width}, name == "lmu" ? std::pair("memory_width", "9") : std::pair("layers", "2")}}, 40,
            torch::kFloat32);
        const std::int64_t steps = batch == 1 ? 1 : 13;
        Tensor lengths_B = torch::randint(0, steps + 1, {batch}, torch::kInt64);
        lengths_B[0] = steps;
        const Tensor input_BTD = torch::randn({batch, steps, model->width()});
        const Learned actual = learn(*model, input_BTD, lengths_B);
        model->to(torch::kFloat64);  // of which LibTorch takes care
        const Learned expected = learn(*model, input_BTD.to(torch::kFloat64), lengths_B);
        const auto error = [](const Tensor& x, const Tensor& of) { return relative_error(x.to(torch::kFloat64), of); };
        CHECK(error(actual.output_BTD, expected.output_BTD) <= 2e-6);
        double all = 0;
        for (const Tensor& gradient : expected.gradients) all = std::hypot(all, gradient.norm().item<double>());
        REQUIRE(actual.gradients.size() == expected.gradients.size());
        for (std::size_t i = 0; i < actual.gradients.size(); ++i) {
          CAPTURE(i);
          if (steps == 1 && expected.gradients[i].norm().item<double>() == 0)
            CHECK(actual.gradients[i].norm().item<double>() == 0);  // of U: nothing is before the first step
          else {
            // The terms of a single number may cancel: against all gradients, what is left of it is rounding.
            const double own = expected.gradients[i].norm().item<double>();
            const double bound = 1e-5 * own + (expected.gradients[i].numel() == 1 ? 2e-6 * all : 0);
            CHECK((actual.gradients[i].to(torch::kFloat64) - expected.gradients[i]).norm().item<double>() <= bound);
          }
        }
      }
}
