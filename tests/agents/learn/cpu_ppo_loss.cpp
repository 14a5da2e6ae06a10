// PPO's loss and gradients on the CPU in float32, where engram's own loop computes them, against the definition in
// double precision.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include "agents/learn/ppo/cpu_loss.h"
#include "tests/agents/learn/plain_ppo.h"
#include "tests/agents/learn/ppo_problem.h"

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
  for (const PpoLoss& loss : {x.own(), x.plain()})
    CHECK(loss.kl.item<double>() == doctest::Approx(expected).epsilon(1e-3));
}
