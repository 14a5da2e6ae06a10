#include "agents/adam.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/agents/list_checks.h"

using namespace engram;

TEST_CASE("Adam takes the steps of torch::optim::Adam") {
  testing::check_adam(torch::kFloat64);
  testing::check_adam(torch::kFloat32);
}

TEST_CASE("Adam refuses a parameter without gradient") {
  Adam optimizer({torch::zeros({2}, torch::requires_grad())}, 1e-3);
  CHECK_THROWS_AS(optimizer.step(), std::logic_error);
}
