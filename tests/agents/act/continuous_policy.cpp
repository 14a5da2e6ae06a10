// Acting with a continuous action: what is drawn, kept and seen again.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "agents/act/policy.h"
#include "agents/play/rollout.h"
#include "agents/run/trained/trained_agent.h"
#include "base/error.h"
#include "base/sample_action.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/learn/batches.h"

using namespace engram;

namespace {

const ActionSpec kTwo = continuous_task(3, 9).action;

std::shared_ptr<AgentNetwork> network_of(const TaskInfo& task,
                                         const NetworkOptions& options = {.hidden_width = 6, .dropout = 0}) {
  torch::manual_seed(1);
  auto network = std::make_shared<AgentNetwork>(options, small_backbone("gru", 8), task, 0, LearnerConfig("ppo"));
  scatter_weights(*network, 0.3);
  network->eval();
  return network;
}

ActingRows random_rows(const TaskInfo& task, std::int64_t size) {
  return {.observation_N = torch::randn({size, task.observation.elements()}),
          .reward_N = torch::zeros({size}),
          .fresh_N = torch::ones({size}, torch::kUInt8),
          .action_N = action_rows(task.action, size, torch::kCPU)};
}

}  // namespace

TEST_CASE("numbers are drawn from normal distributions of the means and deviations that are said") {
  const float normal[] = {0.5f, -2, 30, std::log(0.25f), std::log(3.0f), std::log(1e-3f)};
  Rng rng(1, Purpose::kAction, 0, 0);
  constexpr int kDraws = 40'000;
  double sum[3] = {}, squares[3] = {}, products = 0;
  for (int i = 0; i < kDraws; ++i) {
    std::int32_t row[3];
    REQUIRE(draw_numbers(normal, 3, false, rng, row));
    double z[3];
    for (int a = 0; a < 3; ++a) {
      z[a] = (number_of(row[a]) - normal[a]) / std::exp(normal[3 + a]);
      sum[a] += z[a];
      squares[a] += z[a] * z[a];
    }
    products += z[0] * z[1];
  }
  for (int a = 0; a < 3; ++a) {
    CHECK(std::abs(sum[a] / kDraws) < 0.025);  // five standard errors
    CHECK(std::abs(squares[a] / kDraws - 1) < 0.036);
  }
  CHECK(std::abs(products / kDraws) < 0.025);

  Rng before = rng;
  std::int32_t row[3];
  REQUIRE(draw_numbers(normal, 3, true, rng, row));
  for (int a = 0; a < 3; ++a) CHECK(number_of(row[a]) == normal[a]);
  CHECK(rng.next() == before.next());  // nothing was drawn
  for (const std::size_t place : {0, 5})
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      float spoilt[6];
      std::copy(std::begin(normal), std::end(normal), spoilt);
      spoilt[place] = bad;
      CHECK_FALSE(draw_numbers(spoilt, 3, true, rng, row));
    }
}

TEST_CASE("a policy keeps means and deviations in the task's units, and its greedy action is the mean") {
  const TaskInfo task = continuous_task(3, 9);
  const auto network = network_of(task);
  NetworkPolicy policy(network, torch::kFloat32, 4, 1, MemorySpan::kEpisode, torch::kCPU);
  CHECK(policy.probabilities_NA().sizes() == torch::IntArrayRef({4, 4}));
  const ActingRows rows = random_rows(task, 4);
  policy.act(rows, ActionChoice::kGreedy);
  const torch::Tensor kept = policy.probabilities_NA().clone();
  CHECK(torch::equal(numbers_of(rows.action_N), kept.narrow(1, 0, 2)));
  CHECK(rows.fresh_N.sum().item<int>() == 0);

  const torch::NoGradGuard no_grad;
  const torch::Tensor head = network->head("actor", policy.last_step().features_ND);
  const torch::Tensor deviation = network->named_parameters()["log_deviation"];
  // "push" of -1 to 1, "lift" of 0 to 5.
  CHECK(torch::allclose(kept.select(1, 0), head.select(1, 0), 1e-6, 1e-6));
  CHECK(torch::allclose(kept.select(1, 1), 2.5 + 2.5 * head.select(1, 1), 1e-6, 1e-6));
  CHECK(torch::allclose(kept.select(1, 2), deviation[0].expand({4}), 1e-6, 1e-6));
  CHECK(torch::allclose(kept.select(1, 3), (deviation[1] + std::log(2.5)).expand({4}), 1e-6, 1e-6));

  network->named_parameters()["log_deviation"].fill_(NAN);
  CHECK_THROWS_AS(policy.act(rows, ActionChoice::kSample), DivergedError);
}

TEST_CASE("rows sample from streams of their own, whatever others do") {
  const TaskInfo task = continuous_task(3, 9);
  const auto network = network_of(task);
  NetworkPolicy many(network, torch::kFloat32, 5, 7, MemorySpan::kEpisode, torch::kCPU),
      one(network, torch::kFloat32, 1, 7, MemorySpan::kEpisode, torch::kCPU, /*first_row=*/3);
  const ActingRows all = random_rows(task, 5), alone = random_rows(task, 1);
  alone.observation_N.copy_(all.observation_N.narrow(0, 3, 1));
  for (int t = 0; t < 4; ++t) {
    many.act(all, ActionChoice::kSample);
    one.act(alone, ActionChoice::kSample);
    CHECK(torch::allclose(numbers_of(all.action_N)[3], numbers_of(alone.action_N)[0], 1e-5, 1e-6));
    CHECK_FALSE(torch::allclose(numbers_of(all.action_N)[3], numbers_of(all.action_N)[2]));
  }
}

TEST_CASE("the network sees the last action's numbers within their bounds, and none at an episode's beginning") {
  const TaskInfo task = continuous_task(3, 9);
  for (const Encoder encoder : {Encoder::kParts, Encoder::kJoint})
    for (const bool mark : {false, true}) {
      const auto network = network_of(
          task,
          {.encoder = encoder, .previous_action_width = 1, .first_step_mark = mark, .hidden_width = 6, .dropout = 0});
      const torch::NoGradGuard no_grad;
      const torch::Tensor observation = torch::randn({1, 3}), reward = torch::zeros({1});
      const auto encoded = [&](float push, float lift) {
        return network->encode(observation, torch::tensor({{push, lift}}), reward);
      };
      CHECK(torch::equal(encoded(3, -1), encoded(1, 0)));
      CHECK(torch::equal(encoded(-2, 6), encoded(-1, 5)));
      const torch::Tensor none = encoded(NAN, NAN);
      CHECK(none.isfinite().all().item<bool>());
      CHECK(torch::equal(none, encoded(0, 0)) == !mark);
      // Relu may hide a number, as the reference's does: of many pairs some are told apart.
      int apart = 0;
      for (const float push : {-0.9f, -0.3f, 0.4f, 0.9f}) apart += !torch::equal(encoded(push, 1), encoded(push, 4));
      if (encoder == Encoder::kJoint) CHECK(apart == 4);
    }
}

TEST_CASE("a rollout records what was drawn with the density it was drawn with") {
  const Config config = Config::from_settings({{"learner.name", "ppo"},
                                               {"memory.name", "gru"},
                                               {"task.name", "pendulum"},
                                               {"task.max_steps", "12"},
                                               {"network.previous_action_width", "4"},
                                               {"network.hidden_width", "8"}});
  auto network = draw_network(config, config.task.info(), torch::kCPU);
  network->eval();
  auto rollout = make_rollout(config, network, torch::kCPU, Purpose::kTraining, 2, 1);
  EpisodeStore store = EpisodeStore::of_iterations(config.task.info(), 100, torch::kCPU);
  while (store.episodes() < 2) {
    const Rollout::Played played = rollout->play(ActionChoice::kSample);
    store.add(rollout->recording(), played.episodes);
  }
  const EpisodeBatch batch = store.gather({0, 1});
  CHECK(batch.action_BT.sizes() == torch::IntArrayRef({2, 12, 1}));
  CHECK((batch.action_BT.scalar_type() == torch::kFloat32));
  CHECK(batch.previous_action_BT1.select(1, 0).isnan().all().item<bool>());
  CHECK(torch::equal(batch.previous_action_BT1.narrow(1, 1, 12), batch.action_BT));
  // Near its beginning the mean is 0 and the deviation half of the torque's range, 2.
  const torch::Tensor expected_BT =
      -(batch.action_BT.squeeze(-1) / 2).square() / 2 - std::log(2.0) - std::log(2 * 3.14159265358979) / 2;
  CHECK(torch::allclose(batch.log_prob_BT, expected_BT, 0, 0.02));
  CHECK(batch.action_BT.abs().max().item<float>() > 2);  // beyond the bounds
}

TEST_CASE("episodes of actions of two numbers are kept, gathered, logged and padded") {
  const TaskInfo task = continuous_task(3, 9);
  EpisodeStore store({.capacity_steps = 100}, task, 100, torch::kCPU);
  Rng rng(1, Purpose::kTest, 0, 0);
  const Episode longer = random_episode(task, 5, End::kTruncated, rng),
                shorter = random_episode(task, 2, End::kTerminated, rng);
  CHECK(longer.actions.size() == 10);
  CHECK(longer.steps() == 5);
  store.add(longer);
  store.add(shorter);
  const EpisodeBatch batch = store.gather({0, 1});
  for (const auto& [b, episode] : {std::pair{0, &longer}, {1, &shorter}})
    for (std::int64_t t = 0; t < 5; ++t)
      for (std::int64_t a = 0; a < 2; ++a) {
        const bool valid = t < episode->steps();
        const float expected = valid ? number_of(episode->actions[static_cast<std::size_t>(2 * t + a)]) : 0;
        CHECK(batch.action_BT[b][t][a].item<float>() == expected);
        const float after = batch.previous_action_BT1[b][t + 1][a].item<float>();
        CHECK((valid ? after == expected : std::isnan(after)));
      }
  Episode bad = longer;
  bad.actions.pop_back();
  CHECK_THROWS_WITH_AS(store.add(bad), "an episode of 9 actions' numbers, 5 rewards, and 72 bytes of observations",
                       std::invalid_argument);
}
