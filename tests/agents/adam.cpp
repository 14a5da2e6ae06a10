#include "agents/adam.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

using namespace engram;

TEST_CASE("Adam takes the steps of torch::optim::Adam") {
  torch::manual_seed(1);
  std::vector<torch::TensorOptions> kinds{torch::kFloat64, torch::kFloat32};
  if (torch::cuda::is_available()) kinds.push_back(torch::dtype(torch::kFloat32).device(torch::kCUDA));
  for (const torch::TensorOptions& kind : kinds) {
    CAPTURE(kind.device().str());
    std::vector<torch::Tensor> ours, theirs;
    std::vector<std::vector<std::int64_t>> shapes(70, {3});  // more than one launch takes
    shapes.insert(shapes.end(), {{7, 3}, {5}, {}, {61, 100}, {1024}});
    for (const std::vector<std::int64_t>& shape : shapes) {
      ours.push_back(torch::randn(shape, kind).requires_grad_());
      theirs.push_back(ours.back().detach().clone().requires_grad_());
    }
    Adam optimizer(ours, 3e-3);
    torch::optim::Adam reference(theirs, torch::optim::AdamOptions(3e-3));
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_gradients();
      reference.zero_grad();
      for (std::size_t i = 0; i < ours.size(); ++i) {
        (ours[i].square() * (i + step)).sum().backward();
        (theirs[i].square() * (i + step)).sum().backward();
      }
      optimizer.step();
      reference.step();
    }
    for (std::size_t i = 0; i < ours.size(); ++i)
      // Both round each operation in another order: a few units in the last place over 20 steps.
      CHECK(torch::allclose(ours[i], theirs[i], 0, kind.dtype() == torch::kFloat64 ? 1e-14 : 1e-6));
  }
}

TEST_CASE("Adam refuses a parameter without gradient") {
  Adam optimizer({torch::zeros({2}, torch::requires_grad())}, 1e-3);
  CHECK_THROWS_AS(optimizer.step(), std::logic_error);
}
