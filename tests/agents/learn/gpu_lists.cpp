// The optimiser and the passes over lists of tensors, on a GPU.
#include <doctest/doctest.h>

#include "tests/agents/learn/list_checks.h"
#include "tests/gpu.h"

using namespace engram::testing;

namespace {

const torch::TensorOptions kGpu = torch::dtype(torch::kFloat32).device(torch::kCUDA);

}  // namespace

TEST_CASE("Adam takes the steps of torch::optim::Adam on a GPU") {
  if (skip_without_gpu()) return;
  for (const double weight_decay : {0.0, 0.1, 5.0}) check_adam(kGpu, weight_decay);
}

TEST_CASE("Adam on a GPU takes the learning rate that it is given before each step") {
  if (skip_without_gpu()) return;
  check_changed_rate(kGpu);
}

TEST_CASE("norms, watch and moving lists on a GPU") {
  if (skip_without_gpu()) return;
  check_parameter_lists(kGpu);
}
