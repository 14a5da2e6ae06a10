#include "memory/ops/recurrences/relu_recurrence.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "nn/device/plain_operations.h"
#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

struct Inputs {
  Tensor weight_D, b_BTD, h0_BD, d_h_BTD;
};
Inputs draw(std::int64_t rows, std::int64_t steps, std::int64_t width) {
  return {torch::empty({width}).uniform_(-1.05, 1.05), torch::randn({rows, steps, width}), torch::randn({rows, width}),
          torch::randn({rows, steps, width})};
}

// h, and the gradients of u, b and h0.
std::vector<Tensor> learnt(const Inputs& inputs, torch::ScalarType dtype, const auto& recurrence) {
  std::vector<Tensor> wanted;
  for (const Tensor& x : {inputs.weight_D, inputs.b_BTD, inputs.h0_BD})
    wanted.push_back(x.to(dtype).detach().clone().requires_grad_());
  const Tensor h_BTD = recurrence(wanted[0], wanted[1], wanted[2]);
  std::vector<Tensor> all = torch::autograd::grad({(h_BTD * inputs.d_h_BTD.to(dtype)).sum()}, wanted);
  all.push_back(h_BTD.detach());
  return all;
}

}  // namespace

TEST_CASE(
    "a CPU's relu recurrence and its gradients are those of LibTorch's operations, on one thread and on several") {
  torch::manual_seed(3);
  const int threads_before = torch::get_num_threads();
  for (const int threads : {1, 3})
    for (const std::int64_t steps : {1, 2, 77}) {
      torch::set_num_threads(threads);
      CAPTURE(steps);
      const Inputs inputs = draw(5, steps, 13);
      const std::vector<Tensor> expected = learnt(inputs, torch::kFloat64, plain_relu_recurrence);
      const std::vector<Tensor> actual = learnt(inputs, torch::kFloat32, relu_recurrence);
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(relative_error(actual[i].to(torch::kFloat64), expected[i]) < 1e-6);
      const PlainOperations plain(true);
      const std::vector<Tensor> by_operations = learnt(inputs, torch::kFloat32, relu_recurrence);
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(relative_error(by_operations[i].to(torch::kFloat64), expected[i]) < 1e-6);
    }
  torch::set_num_threads(threads_before);
}

TEST_CASE("what is not a number in a relu recurrence stays so, as in LibTorch's") {
  torch::manual_seed(4);
  Inputs inputs = draw(2, 30, 4);
  inputs.b_BTD[1][11][2] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Tensor> expected = learnt(inputs, torch::kFloat32, plain_relu_recurrence);
  const std::vector<Tensor> actual = learnt(inputs, torch::kFloat32, relu_recurrence);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    // Of h and of u's gradient; the others are products of u and of what comes in.
    CHECK(expected[i].isnan().any().item<bool>() == (i == 0 || i == 3));
    CHECK(torch::equal(actual[i].isnan(), expected[i].isnan()));
  }
}
