#include "memory/ops/recurrences/linear_recurrence.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

// The definition, one step after the other.
Tensor by_steps(const Tensor& a_BTD, const Tensor& b_BTD, const Tensor& h0_BD) {
  std::vector<Tensor> states;
  Tensor h_BD = h0_BD;
  for (std::int64_t t = 0; t < b_BTD.size(1); ++t) {
    h_BD = a_BTD.select(1, t) * h_BD + b_BTD.select(1, t);
    states.push_back(h_BD);
  }
  return torch::stack(states, 1);
}

}  // namespace

TEST_CASE("the linear recurrence and its gradients equal those of its definition, real and complex") {
  torch::manual_seed(1);
  for (const auto dtype : {torch::kFloat64, torch::kComplexDouble})
    for (const std::int64_t steps : {1, 2, 3, 4, 7, 64, 129}) {
      CAPTURE(steps);
      // Factors on both sides of 1, negative ones, and zeros, which forget all that was.
      Tensor a = torch::randn({3, steps, 5}, dtype);
      a.select(2, 1).mul_(0.1);
      a.select(2, 2).zero_();
      if (steps > 2) a[1][2].zero_();
      a.requires_grad_();
      const Tensor b = torch::randn({3, steps, 5}, dtype).requires_grad_();
      const Tensor h0 = torch::randn({3, 5}, dtype).requires_grad_();
      const Tensor weight = torch::randn({3, steps, 5}, dtype);
      const auto with_gradients = [&](const Tensor& h) {
        // Scaled by channel: factors above 1 make some large.
        const Tensor scale = h.detach().abs().amax({0, 1}, /*keepdim=*/true);
        std::vector<Tensor> all = torch::autograd::grad({torch::real(h / scale * weight).sum()}, {a, b, h0});
        all.push_back(h.detach() / scale);
        return all;
      };
      const auto got = with_gradients(linear_recurrence(a, b, h0)), expected = with_gradients(by_steps(a, b, h0));
      for (std::size_t i = 0; i < expected.size(); ++i)
        for (std::int64_t d = 0; d < 5; ++d)
          CHECK(relative_error(got[i].select(-1, d), expected[i].select(-1, d)) < 1e-9);
    }
}

TEST_CASE("factors that all rows and steps share have the gradient of all of them") {
  torch::manual_seed(2);
  for (const auto dtype : {torch::kFloat64, torch::kComplexDouble}) {
    const Tensor a = (0.5 * torch::randn({4}, dtype)).requires_grad_();
    const Tensor b = torch::randn({3, 50, 4}, dtype), h0 = torch::randn({3, 4}, dtype);
    const Tensor weight = torch::randn({3, 50, 4}, dtype);
    const auto gradient = [&](const Tensor& h) {
      return torch::autograd::grad({torch::real(h * weight).sum()}, {a})[0];
    };
    const Tensor shared = a.expand({3, 50, 4});
    CHECK(relative_error(linear_recurrence(shared, b, h0).detach(), by_steps(shared, b, h0).detach()) < 1e-12);
    CHECK(relative_error(gradient(linear_recurrence(shared, b, h0)), gradient(by_steps(shared, b, h0))) < 1e-12);
  }
}

TEST_CASE("a recurrence that forgets fast or never stays exact over thousands of steps, in float32") {
  torch::manual_seed(3);
  // Products over the sequence from 1 down to far below what float32 holds: a quotient of such would be nan.
  const Tensor a =
      torch::tensor({1.0, 0.99999, 0.9, 0.1, 1e-6, 1e-30}).expand({2, 3000, 6}).contiguous().requires_grad_();
  const Tensor b = torch::randn({2, 3000, 6}).requires_grad_(), h0 = torch::randn({2, 6}).requires_grad_();
  const Tensor h = linear_recurrence(a, b, h0);
  const Tensor expected =
      by_steps(a.detach().to(torch::kFloat64), b.detach().to(torch::kFloat64), h0.detach().to(torch::kFloat64));
  for (std::int64_t d = 0; d < 6; ++d)
    CHECK(relative_error(h.detach().select(2, d).to(torch::kFloat64), expected.select(2, d)) < 1e-5);
  h.sum().backward();
  for (const Tensor& x : {a, b, h0}) CHECK(x.grad().isfinite().all().item<bool>());
}

TEST_CASE("the state after a row's length is that step's, or the initial one") {
  torch::manual_seed(4);
  const Tensor h_BTD = torch::randn({4, 6, 3}), h0_BD = torch::randn({4, 3});
  const Tensor state_BD = state_after(h_BTD, h0_BD, lengths({6, 0, 1, 4}));
  CHECK(torch::equal(state_BD[0], h_BTD[0][5]));
  CHECK(torch::equal(state_BD[1], h0_BD[1]));
  CHECK(torch::equal(state_BD[2], h_BTD[2][0]));
  CHECK(torch::equal(state_BD[3], h_BTD[3][3]));
}

TEST_CASE("a linear recurrence refuses shapes and types that differ, and takes no steps at all") {
  const Tensor x_BTD = torch::zeros({2, 3, 4}), h0_BD = torch::zeros({2, 4});
  CHECK_THROWS_AS(linear_recurrence(torch::zeros({2, 3, 5}), x_BTD, h0_BD), c10::Error);
  CHECK_THROWS_AS(linear_recurrence(x_BTD, x_BTD, torch::zeros({1, 4})), c10::Error);
  CHECK_THROWS_AS(linear_recurrence(x_BTD, x_BTD, h0_BD.to(torch::kFloat64)), c10::Error);
  CHECK(linear_recurrence(torch::zeros({2, 0, 4}), torch::zeros({2, 0, 4}), h0_BD).size(1) == 0);
}
