#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "agents/learn/losses.h"
#include "agents/learn/sac/losses.h"
#include "tests/agents/learn/sac/plain_sac.h"

using namespace engram;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

plain::Problem random_problem(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const auto draw = [&](std::size_t count, double scale) {
    plain::Numbers numbers(count);
    for (double& number : numbers) number = scale * normal(random);
    return numbers;
  };
  plain::Problem p{};
  p.batch = 5;
  p.steps = 7;
  p.actions = 4;
  p.alpha = 0.3;
  p.gamma = 0.95;
  const int steps = p.batch * p.steps;
  p.reward = draw(steps, 1);
  // The wide logits reach probabilities below the clamp.
  p.logits = draw(p.batch * (p.steps + 1) * p.actions, seed % 2 == 0 ? 1 : 15);
  p.q1 = draw(steps * p.actions, 2);
  p.q2 = draw(steps * p.actions, 2);
  p.target_q1 = draw(steps * p.actions, 2);
  p.target_q2 = draw(steps * p.actions, 2);
  p.terminated.assign(steps, 0);
  for (int b = 0; b < p.batch; ++b) p.length.push_back(b == 0 ? p.steps : 1 + static_cast<int>(random() % p.steps));
  for (int b = 0; b < p.batch; ++b)
    if (b % 2 == 0) p.terminated[b * p.steps + p.length[b] - 1] = 1;
  for (int step = 0; step < steps; ++step) p.action.push_back(static_cast<int>(random() % p.actions));
  return p;
}

struct Tensors {
  torch::Tensor logits, q1, q2, target_q1, target_q2, reward, terminated, action, mask, alpha;
};

Tensors tensors_of(const plain::Problem& p) {
  const auto tensor = [&](const plain::Numbers& numbers, std::vector<std::int64_t> shape) {
    return torch::tensor(numbers, torch::kFloat64).reshape(shape);
  };
  const std::int64_t B = p.batch, T = p.steps, A = p.actions;
  Tensors x{tensor(p.logits, {B, T + 1, A}).requires_grad_(),
            tensor(p.q1, {B, T, A}).requires_grad_(),
            tensor(p.q2, {B, T, A}).requires_grad_(),
            tensor(p.target_q1, {B, T, A}),
            tensor(p.target_q2, {B, T, A}),
            tensor(p.reward, {B, T}),
            tensor(p.terminated, {B, T}),
            torch::tensor(p.action).to(torch::kInt64).reshape({B, T}),
            torch::zeros({B, T}, torch::kFloat64),
            torch::tensor(p.alpha, torch::kFloat64)};
  for (int b = 0; b < p.batch; ++b) x.mask[b].narrow(0, 0, p.length[b]).fill_(1);
  return x;
}

struct Losses {
  torch::Tensor target, critic1, critic2, actor, entropy;
};

// The losses as the learner puts them together; gradients of the total are left in logits, q1 and q2.
Losses run(Tensors& x, double gamma) {
  const std::int64_t steps = x.q1.size(1);
  const auto probabilities = x.logits.softmax(-1);
  const auto current = probabilities.narrow(1, 0, steps);
  Losses y;
  y.target = sac::bellman_targets(x.reward, x.terminated, probabilities.narrow(1, 1, steps), x.target_q1, x.target_q2,
                                  x.alpha, gamma);
  y.critic1 = critic_loss(x.q1, x.action, y.target, x.mask);
  y.critic2 = critic_loss(x.q2, x.action, y.target, x.mask);
  y.actor = sac::actor_loss(current, x.q1, x.q2, x.alpha, x.mask);
  y.entropy = sac::mean_entropy(current, x.mask);
  (0.5 * (y.critic1 + y.critic2) + y.actor).backward();
  return y;
}

// Greatest difference, relative to the greatest number.
double loss_difference(const torch::Tensor& tensor, const plain::Numbers& numbers) {
  const auto expected = torch::tensor(numbers, torch::kFloat64).reshape(tensor.sizes());
  return ((tensor.detach() - expected).abs().max() / expected.abs().max()).item<double>();
}

// Both compute in double precision; sums of some hundred terms differ by their order alone.
constexpr double kLossTolerance = 1e-12;

}  // namespace

TEST_CASE("targets, losses and gradients equal plain double-precision loops") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const plain::Problem problem = random_problem(seed);
    const plain::Solution expected = plain::solve(problem);
    Tensors x = tensors_of(problem);
    const Losses y = run(x, problem.gamma);
    CHECK(loss_difference(y.target * x.mask, expected.target) <= kLossTolerance);
    CHECK(y.critic1.item<double>() == doctest::Approx(expected.critic1).epsilon(kLossTolerance));
    CHECK(y.critic2.item<double>() == doctest::Approx(expected.critic2).epsilon(kLossTolerance));
    CHECK(y.actor.item<double>() == doctest::Approx(expected.actor).epsilon(kLossTolerance));
    CHECK(y.entropy.item<double>() == doctest::Approx(expected.entropy).epsilon(kLossTolerance));
    CHECK(loss_difference(x.logits.grad(), expected.d_logits) <= kLossTolerance);
    CHECK(loss_difference(x.q1.grad(), expected.d_q1) <= kLossTolerance);
    CHECK(loss_difference(x.q2.grad(), expected.d_q2) <= kLossTolerance);
  }
}

TEST_CASE("NaN in the padding changes no bit of losses and gradients") {
  const plain::Problem problem = random_problem(4);
  Tensors clean = tensors_of(problem), dirty = tensors_of(problem);
  const auto padding = dirty.mask == 0;
  REQUIRE(padding.any().item<bool>());
  dirty.reward.masked_fill_(padding, kNaN);
  dirty.terminated.masked_fill_(padding, kNaN);
  dirty.action.masked_fill_(padding, 3);
  for (torch::Tensor* values : {&dirty.target_q1, &dirty.target_q2}) values->masked_fill_(padding.unsqueeze(-1), kNaN);
  const Losses a = run(clean, problem.gamma), b = run(dirty, problem.gamma);
  CHECK(torch::equal(a.critic1, b.critic1));
  CHECK(torch::equal(a.critic2, b.critic2));
  CHECK(torch::equal(a.actor, b.actor));
  CHECK(torch::equal(a.entropy, b.entropy));
  CHECK(torch::equal(clean.logits.grad(), dirty.logits.grad()));
  CHECK(torch::equal(clean.q1.grad(), dirty.q1.grad()));
  CHECK(torch::equal(clean.q2.grad(), dirty.q2.grad()));
}

TEST_CASE("a truncated episode bootstraps, a terminated one does not") {
  const auto number = [](double value) { return torch::tensor({{value}}, torch::kFloat64); };
  const auto policy = torch::tensor({{{0.25, 0.75}}}, torch::kFloat64);
  const auto q1 = torch::tensor({{{2.0, 5.0}}}, torch::kFloat64), q2 = torch::tensor({{{3.0, 4.0}}}, torch::kFloat64);
  const auto alpha = torch::tensor(0.5, torch::kFloat64);
  const double value = 0.25 * (2 - 0.5 * std::log(0.25)) + 0.75 * (4 - 0.5 * std::log(0.75));
  CHECK(sac::bellman_targets(number(7), number(0), policy, q1, q2, alpha, 0.9).item<double>() ==
        doctest::Approx(7 + 0.9 * value).epsilon(1e-14));
  CHECK(sac::bellman_targets(number(7), number(1), policy, q1, q2, alpha, 0.9).item<double>() == 7);
}

TEST_CASE("no gradient reaches the critics through the actor's loss, nor anything through the targets") {
  Tensors x = tensors_of(random_problem(2));
  const std::int64_t steps = x.q1.size(1);
  x.alpha.requires_grad_();
  const auto probabilities = x.logits.softmax(-1);
  sac::actor_loss(probabilities.narrow(1, 0, steps), x.q1, x.q2, x.alpha, x.mask).backward();
  CHECK(x.logits.grad().defined());
  CHECK_FALSE(x.q1.grad().defined());
  CHECK_FALSE(x.q2.grad().defined());
  CHECK_FALSE(x.alpha.grad().defined());
  CHECK_FALSE(sac::bellman_targets(x.reward, x.terminated, probabilities.narrow(1, 1, steps), x.q1, x.q2, x.alpha, 0.9)
                  .requires_grad());
}
