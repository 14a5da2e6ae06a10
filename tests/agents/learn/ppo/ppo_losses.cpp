// The definition of PPO's loss, by LibTorch's operations, and how advantages are estimated on the CPU.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "agents/learn/ppo/losses.h"
#include "tests/agents/learn/ppo/plain_advantages.h"
#include "tests/agents/learn/ppo/plain_ppo.h"
#include "tests/agents/learn/ppo/ppo_problem.h"

using namespace engram;

namespace {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

// One episode of one step with two actions, where r = `ratio` and A' = `advantage`.
plain_ppo::Problem one_step(double ratio, double advantage, plain_ppo::Options options = {}) {
  options.mean = 0, options.deviation = 1;
  return {.batch = 1,
          .steps = 1,
          .actions = 2,
          .options = options,
          .length = {1},
          .action = {1},
          .logits = {0.4, -0.3, kNotANumber, kNotANumber},
          .value = {0.5, kNotANumber},
          .log_prob = {plain_ppo::log_softmax<double>({0.4, -0.3})[1] - std::log(ratio)},
          .old_value = {0.25},
          .advantage = {advantage}};
}

// The derivative of the loss of one_step() by the logit of its action, as part of that of log pi.
double slope_of(const plain_ppo::Problem& p) {
  PpoInputs x = inputs_of(p, torch::kFloat64);
  x.batch.log_prob_BT = tensor_of(p.log_prob, {1, 1});  // float32 would move the ratio off what is asked for
  x.plain().backward();
  const double probability = std::exp(plain_ppo::log_softmax<double>({0.4, -0.3})[1]);
  return x.heads.logits.grad()[0][0][1].item<double>() / (1 - probability);
}

}  // namespace

TEST_CASE("PPO's losses and gradients equal plain double-precision loops, for ragged episodes with padding of NaN") {
  unsigned seed = 0;
  for (const plain_ppo::Options& options : plain_ppo::all_options())
    for (const int actions : {2, 4, 7})
      for (const int spare : {0, 3}) {
        CAPTURE(++seed);
        const auto problem = plain_ppo::random_problem(6, 9, actions, options, seed, seed % 2 == 0 ? 1 : 4);
        const plain_ppo::Solution expected = plain_ppo::solve(problem);
        const PpoInputs x = inputs_of(problem, torch::kFloat64, torch::kCPU, spare);
        const PpoLoss loss = x.plain();
        CHECK(loss.outputs.empty());
        check_solution(x, loss, expected, 1e-12, 1e-10);
        for (const auto& [name, part] : parts_of(loss)) CHECK(part.requires_grad() == (name == std::string("total")));
        const PpoInputs single = inputs_of(problem, torch::kFloat32, torch::kCPU, spare);
        check_solution(single, single.plain(), expected, 1e-5, 1e-5);
      }
}

TEST_CASE("episodes of a single step are learnt from") {
  const auto problem = plain_ppo::random_problem(4, 1, 3, {.entropy_weight = 0.2, .kl_weight = 1}, 5);
  const PpoInputs x = inputs_of(problem, torch::kFloat64);
  check_solution(x, x.plain(), plain_ppo::solve(problem), 1e-12, 1e-10);
}

TEST_CASE("what stands in PPO's padding changes no bit") {
  const auto problem = plain_ppo::random_problem(6, 9, 4, plain_ppo::all_options().back(), 3);
  for (const bool use_kernels : {false, true}) {
    const auto run = [&](const PpoInputs& x) {
      ppo_loss(x.heads, x.batch, x.scales, x.weights, x.actions, use_kernels).backward();
      return std::vector<torch::Tensor>{x.heads.logits.grad(), x.heads.value.grad()};
    };
    const PpoInputs dirty = inputs_of(problem, torch::kFloat32), clean = inputs_of(problem, torch::kFloat32);
    {
      const torch::NoGradGuard no_grad;
      for (torch::Tensor x : {clean.heads.logits, clean.heads.value, clean.batch.log_prob_BT, clean.batch.value_BT,
                              clean.batch.advantage_BT})
        x.nan_to_num_(0.5);
      clean.batch.action_BT.masked_fill_(clean.batch.mask_BT == 0, 0);
    }
    const auto expected = run(clean), actual = run(dirty);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(torch::equal(actual[i], expected[i]));
  }
}

TEST_CASE(
    "the slope of the clipped surrogate: the unclipped one inside and at a ratio of 1, none where clipping holds") {
  const double inside = 1 / std::sqrt(2.0);  // any ratio within the bounds
  for (const double advantage : {1.5, -1.5}) {
    const plain_ppo::Options options{.clip = 0.4, .value_weight = 0, .entropy_weight = 0};
    const auto slope = [&](double ratio) { return slope_of(one_step(ratio, advantage, options)); };
    CHECK(slope(1) == doctest::Approx(-advantage).epsilon(1e-12));
    CHECK(slope(inside) == doctest::Approx(-advantage * inside).epsilon(1e-12));
    // Too much of a good action, or too little of a bad one, earns nothing more; the other way is learnt back from.
    CHECK(slope(1.5) == doctest::Approx(advantage > 0 ? 0 : -advantage * 1.5).epsilon(1e-12));
    CHECK(slope(0.5) == doctest::Approx(advantage > 0 ? -advantage * 0.5 : 0).epsilon(1e-12));
  }
}

TEST_CASE("kl draws the policy back to the one that acted, by its weight") {
  const auto slope = [](double ratio, double weight) {
    return slope_of(one_step(ratio, 0, {.value_weight = 0, .entropy_weight = 0, .kl_weight = weight}));
  };
  CHECK(slope(1.5, 2) == doctest::Approx(1).epsilon(1e-12));
  CHECK(slope(0.75, 2) == doctest::Approx(-0.5).epsilon(1e-12));
  CHECK(slope(1.5, 0) == 0);
}

TEST_CASE("a value that is not a number in a valid step makes PPO's loss none, by operations and by loops") {
  const auto problem = plain_ppo::random_problem(3, 5, 4, {.value_clip = 0.2, .value_error_bound = 1}, 8);
  for (const bool use_kernels : {false, true}) {
    CAPTURE(use_kernels);
    const auto total = [&](const PpoInputs& x) {
      return ppo_loss(x.heads, x.batch, x.scales, x.weights, x.actions, use_kernels).total.item<double>();
    };
    CHECK_FALSE(std::isnan(total(inputs_of(problem, torch::kFloat32))));
    for (int input = 0; input < 9; ++input) {
      CAPTURE(input);
      const torch::NoGradGuard no_grad;
      const PpoInputs x = inputs_of(problem, torch::kFloat32);
      const std::int64_t other = x.batch.action_BT[0][0].item<std::int64_t>() == 0 ? 1 : 0;
      const torch::Tensor spoilt[] = {x.heads.logits[0][0][other],
                                      x.heads.logits[0][0][1 - other],
                                      x.heads.value[0][0][0],
                                      x.batch.log_prob_BT[0][0],
                                      x.batch.value_BT[0][0],
                                      x.batch.advantage_BT[0][0],
                                      x.scales.mean,
                                      x.scales.deviation,
                                      x.scales.kl_weight};
      torch::Tensor(spoilt[input]).fill_(kNotANumber);
      CHECK(std::isnan(total(x)));
    }
  }
}

TEST_CASE("advantages equal sums over all later errors, and what follows a termination is not read") {
  for (const auto& [gamma, lambda] : {std::pair(0.99, 0.95), {0.9, 0.0}, {1.0, 1.0}, {0.5, 1.0}}) {
    CAPTURE(gamma);
    CAPTURE(lambda);
    const AdvantageProblem p = random_advantages(9, 30, 7);
    const torch::Tensor value_BT1 = p.value_BT1.clone().requires_grad_();
    const torch::Tensor advantage_BT = advantages_of(p.batch, value_BT1, gamma, lambda);
    CHECK((advantage_BT.scalar_type() == torch::kFloat32));
    CHECK_FALSE(advantage_BT.requires_grad());
    CHECK(largest_advantage_error(advantage_BT, plain_advantages(p, gamma, lambda)) <= 1e-6);
  }
}

TEST_CASE("a truncated episode's last advantage has the next row's value, a terminated one's has none") {
  const auto advantages = [](float terminated, float last_value) {
    EpisodeBatch batch;
    batch.reward_BT = torch::tensor({{1.0f, 2.0f}});
    batch.terminated_BT = torch::tensor({{0.0f, terminated}});
    batch.steps_B = torch::tensor({std::int64_t{2}});
    return advantages_of(batch, torch::tensor({{0.5f, 4.0f, last_value}}), 0.5, 0.25);
  };
  // delta_1 = 2 + 0.5 V_2 - 4,  A_0 = 1 + 0.5 4 - 0.5 + 0.125 delta_1
  CHECK(torch::equal(advantages(0, 8), torch::tensor({{2.75f, 2.0f}})));
  CHECK(torch::equal(advantages(1, 8), torch::tensor({{2.25f, -2.0f}})));
  CHECK(torch::equal(advantages(1, kNotANumber), torch::tensor({{2.25f, -2.0f}})));
}

TEST_CASE("values in rows of several columns are estimated from as well") {
  const AdvantageProblem p = random_advantages(4, 6, 3);
  const torch::Tensor wide = torch::stack({p.value_BT1, torch::full_like(p.value_BT1, kNotANumber)}, -1);
  CHECK(torch::equal(advantages_of(p.batch, wide.select(-1, 0), 0.9, 0.8),
                     advantages_of(p.batch, p.value_BT1, 0.9, 0.8)));
}
