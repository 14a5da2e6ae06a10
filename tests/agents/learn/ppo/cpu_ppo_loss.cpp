// PPO's loss and gradients on the CPU in float32, where engram's own loop computes them, against the definition in
// double precision.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include "agents/learn/ppo/cpu_loss.h"
#include "kernels/learner/ppo_loss/row.h"
#include "tests/agents/learn/ppo/plain_ppo.h"
#include "tests/agents/learn/ppo/ppo_problem.h"

using namespace engram;

TEST_CASE("the loop of PPO's loss is used where it can be") {
  const auto problem = plain_ppo::random_problem(3, 4, 3, {}, 2);
  const PpoInputs single = inputs_of(problem, torch::kFloat32), wide = inputs_of(problem, torch::kFloat64);
  CHECK(supports_cpu_ppo_loss(single.heads));
  CHECK_FALSE(supports_cpu_ppo_loss(wide.heads));
  CHECK(single.own().outputs.size() == 2);
  CHECK(wide.own().outputs.empty());
  CHECK(ppo_loss(single.heads, single.batch, single.scales, single.weights, 3, /*use_kernels=*/false).outputs.empty());
}

TEST_CASE("PPO's losses and gradients in float32 are those in double precision") {
  unsigned seed = 100;
  for (const plain_ppo::Options& options : plain_ppo::all_options())
    for (const int actions : {1, 2, 4, 33})
      for (const int spare : {0, 4}) {
        CAPTURE(++seed);
        CAPTURE(actions);
        const double scale = seed % 2 == 0 ? 1 : 4;
        const auto problem = plain_ppo::random_problem(7, 30, actions, options, seed, scale);
        const PpoInputs x = inputs_of(problem, torch::kFloat32, torch::kCPU, spare);
        // log pi is a number of the size of the logits, and its rounding in float is that of d.
        check_solution(x, x.own(), plain_ppo::solve(problem), scale * 1e-6, scale * 1e-6);
      }
}

TEST_CASE("kl keeps its digits in float32 where the policy has hardly moved") {
  auto problem = plain_ppo::random_problem(4, 50, 3, {.kl_weight = 1}, 4);
  for (int b = 0; b < problem.batch; ++b)
    for (int t = 0; t < problem.length[b]; ++t) {
      const std::size_t first = (b * (problem.steps + 1) + t) * problem.actions, step = b * problem.steps + t;
      const auto log_policy =
          plain_ppo::log_softmax<double>({problem.logits[first], problem.logits[first + 1], problem.logits[first + 2]});
      problem.log_prob[step] = static_cast<float>(log_policy[problem.action[step]] + 1e-3);
    }
  const double expected = plain_ppo::solve(problem).means.kl;  // some 5e-7, of which r - 1 - d would lose a tenth
  const PpoInputs x = inputs_of(problem, torch::kFloat32);
  for (const PpoLoss& loss : {x.own(), x.plain()}) CHECK(std::abs(loss.kl.item<double>() / expected - 1) <= 2e-3);
}

TEST_CASE("a row's policy learns unclipped at a ratio of exactly 1, and from what overflows not at all") {
  const PpoRowWeights weights{
      .clip = 0.2f, .value_clip = 0, .value_error_bound = 0, .value_weight = 1, .entropy_weight = 0};
  const PpoRowScales scales{.mean = 0, .deviation = 1, .kl_weight = 0};
  for (const float advantage : {1.5f, -1.5f}) {
    const ppo_row::Actor row = ppo_row::actor(-0.7f, -0.7f, advantage, weights, scales);
    CHECK(row.slope == -advantage);
    CHECK(row.loss == -advantage);
    CHECK(row.kl == 0);
    CHECK_FALSE(row.clipped);
  }
  // r is infinite and A' is 0: of the two products the unclipped one alone is not a number.
  CHECK(std::isnan(ppo_row::actor(0, -200, 0, weights, scales).loss));
}
