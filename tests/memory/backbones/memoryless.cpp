#include <string>

#include "tests/memory/ops/definition.h"

using namespace engram;
using torch::Tensor;

TEST_CASE("the memoryless control is an MLP of each step alone") {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  auto model = make_model({"none", {{"layers", "2"}}}, 10, torch::kFloat64);
  const Parameters p = parameters_by_name(*model);
  const Tensor x_BTD = torch::randn({2, 6, 100}, torch::kFloat64);
  Tensor expected = x_BTD;
  for (const std::string layer : {"layers.0.", "layers.1."})
    expected = (expected.matmul(p.at(layer + "weight").t()) + p.at(layer + "bias")).clamp_min(0);
  CHECK(relative_error(model->forward(x_BTD), expected) < 1e-12);
  const ModelCost cost = model->cost();
  CHECK(cost.parameters == 2 * (100 * 100 + 100));
  CHECK(cost.state_bytes == 0);
  CHECK(cost.multiply_adds_per_step == 2 * 100 * 100);
}
