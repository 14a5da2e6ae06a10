// Maps of one input as one product against each alone: values and gradients.
#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "nn/fused/maps.h"
#include "nn/layers/layers.h"
#include "tests/nn/linear_maps.h"

using namespace engram;
using namespace engram::testing;
using torch::Tensor;

namespace {

std::vector<cuda::LinearMap> weights_of(const std::vector<torch::nn::Linear>& maps) {
  std::vector<cuda::LinearMap> weights;
  for (const torch::nn::Linear& map : maps) weights.push_back({map->weight, map->bias});
  return weights;
}

}  // namespace

TEST_CASE("maps as one product have the values and gradients of each alone, whatever their sizes") {
  torch::manual_seed(1);
  const std::vector<torch::nn::Linear> maps = make_maps(16, /*biases=*/false);
  const Tensor x = draw({3, 5, 16}, torch::kCPU, torch::kFloat32);
  std::vector<Tensor> each;
  for (torch::nn::Linear map : maps) each.push_back(map->forward(x));
  const std::vector<Tensor> expected = learnt(each, x, maps);
  check(learnt(cuda::linear_maps(x, weights_of(maps)), x, maps), expected, 1e-6);
  check(learnt(apply_linears(maps, x), x, maps), expected, 1e-6);
}

TEST_CASE("maps of an input that needs no gradient, and of parameters that need none") {
  torch::manual_seed(2);
  const std::vector<torch::nn::Linear> maps = make_maps(8, /*biases=*/false);
  const Tensor x = torch::randn({4, 8});
  const std::vector<Tensor> outputs = cuda::linear_maps(x, weights_of(maps));
  const Tensor gradient = torch::autograd::grad({outputs[1].sum()}, {maps[1]->weight})[0];
  CHECK(relative_error(gradient, x.sum(0).expand_as(gradient)) < 1e-6);
  const torch::NoGradGuard no_grad;
  CHECK_FALSE(cuda::linear_maps(x, weights_of(maps))[0].requires_grad());
}

// Of a matrix that its parts fill, or of its columns in another order, or of more than the parts.
TEST_CASE("gradients of maps that stand beside each other in one matrix count as gradients of their own do") {
  torch::manual_seed(3);
  std::vector<torch::nn::Linear> maps;
  for (const int outputs : {8, 16}) maps.emplace_back(torch::nn::LinearOptions(8, outputs).bias(false));
  const Tensor x = torch::randn({3, 5, 8}).requires_grad_();
  const std::vector<Tensor> inputs{x, maps[0]->weight, maps[1]->weight};
  for (const auto& [columns, first, second] : {std::array{24, 0, 8}, std::array{24, 16, 0}, std::array{32, 0, 8}}) {
    CAPTURE(columns);
    CAPTURE(second);
    const Tensor matrix = torch::randn({3, 5, columns}), d_first = matrix.narrow(2, first, 8),
                 d_second = matrix.narrow(2, second, 16);
    const auto gradients = [&](const std::vector<Tensor>& of) {
      return torch::autograd::grad(cuda::linear_maps(x, weights_of(maps)), inputs, of);
    };
    check(gradients({d_first, d_second}), gradients({d_first.clone(), d_second.clone()}), 1e-7);
  }
}
