#include "agents/learn/optimizer/adam.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/agents/learn/list_checks.h"

using namespace engram;

TEST_CASE("Adam takes the steps of torch::optim::AdamW") {
  for (const double weight_decay : {0.0, 0.1, 5.0}) {
    testing::check_adam(torch::kFloat64, weight_decay);
    testing::check_adam(torch::kFloat32, weight_decay);
  }
}

TEST_CASE("Adam takes the learning rate that it is given before each step") {
  testing::check_changed_rate(torch::kFloat64);
  testing::check_changed_rate(torch::kFloat32);
}

TEST_CASE("Adam refuses a parameter without gradient") {
  Adam optimizer({torch::zeros({2}, torch::requires_grad())}, 1e-3);
  CHECK_THROWS_AS(optimizer.step(), std::logic_error);
}
