#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "agents/learn/ppo/fused_loss.h"
#include "tests/agents/learn/ppo/plain_advantages.h"
#include "tests/agents/learn/ppo/plain_ppo.h"
#include "tests/agents/learn/ppo/ppo_problem.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::skip_without_gpu;

TEST_CASE("PPO's losses on a GPU and all their gradients are those of the definition") {
  if (skip_without_gpu()) return;
  unsigned seed = 200;
  for (const plain_ppo::Options& options : plain_ppo::all_options())
    for (const int actions : {3, 4, 40})
      for (const int spare : {0, 5}) {
        CAPTURE(++seed);
        CAPTURE(actions);
        CAPTURE(spare);
        const auto problem = plain_ppo::random_problem(6, 40, actions, options, seed);
        const plain_ppo::Solution expected = plain_ppo::solve(problem);
        const PpoInputs x = inputs_of(problem, torch::kFloat32, torch::kCUDA, spare);
        REQUIRE(supports_fused_ppo_loss(torch::kCUDA, torch::kFloat32, actions));
        const PpoLoss loss = x.own();
        CHECK(loss.outputs.size() == 2);
        check_solution(x, loss, expected, 1e-5, 1e-5);
        // And by LibTorch's operations, which are the way of a GPU for what the kernel does not take.
        const PpoInputs same = inputs_of(problem, torch::kFloat32, torch::kCUDA, spare);
        check_solution(same, same.plain(), expected, 1e-5, 1e-5);
      }
}

TEST_CASE("heads' outputs that do not lie together are learnt from on a GPU") {
  if (skip_without_gpu()) return;
  const auto problem = plain_ppo::random_problem(5, 12, 4, {.kl_weight = 0.5}, 11);
  const PpoInputs apart = inputs_of(problem, torch::kFloat32, torch::kCUDA);
  const torch::Tensor both = torch::cat({apart.heads.logits, apart.heads.value}, -1).detach().requires_grad_();
  PpoInputs x = inputs_of(problem, torch::kFloat32, torch::kCUDA);
  x.heads = {both.narrow(-1, 0, 4), both.narrow(-1, 4, 1)};
  const PpoLoss loss = x.own();
  loss.backward();
  const plain_ppo::Solution expected = plain_ppo::solve(problem);
  check_losses(loss, expected.means, 1e-5);
  check_gradient(both.grad().narrow(-1, 0, 4), expected.d_logits, 1e-5);
  check_gradient(both.grad().narrow(-1, 4, 1), expected.d_value, 1e-5);
}

TEST_CASE("the fused loss of PPO says what it does not take") {
  if (skip_without_gpu()) return;
  const auto reason = [](torch::Device device, torch::ScalarType outputs, std::int64_t actions) {
    return supports_fused_ppo_loss(device, outputs, actions).reason();
  };
  CHECK(reason(torch::kCUDA, torch::kFloat32, 256) == "");
  CHECK(reason(torch::kCUDA, torch::kFloat32, 257) == "the number of actions 257 is more than 256");
  CHECK(reason(torch::kCUDA, torch::kFloat64, 4) == "the heads give Double, not Float");
  CHECK(reason(torch::kCPU, torch::kFloat32, 4) == "the agent learns on the cpu");
}

TEST_CASE("advantages on a GPU are the sums that define them") {
  if (skip_without_gpu()) return;
  const AdvantageProblem p = random_advantages(40, 50, 6);
  EpisodeBatch batch;
  batch.reward_BT = p.batch.reward_BT.cuda();
  batch.terminated_BT = p.batch.terminated_BT.cuda();
  batch.steps_B = p.batch.steps_B.cuda();
  const torch::Tensor value_BT1 = p.value_BT1.cuda().requires_grad_();
  const torch::Tensor advantage_BT = advantages_of(batch, value_BT1, 0.99, 0.95);
  CHECK(advantage_BT.is_cuda());
  CHECK_FALSE(advantage_BT.requires_grad());
  CHECK(largest_advantage_error(advantage_BT, plain_advantages(p, 0.99, 0.95)) <= 5e-6);
  const torch::Tensor wide = torch::stack({value_BT1, value_BT1}, -1);
  CHECK(torch::equal(advantages_of(batch, wide.select(-1, 0), 0.99, 0.95), advantage_BT));
}
