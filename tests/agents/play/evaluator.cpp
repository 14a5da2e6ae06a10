#include "agents/play/evaluator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/agents/act/small_agent.h"
#include "tests/agents/play/probe_env.h"
#include "tests/agents/play/probe_rollout.h"

using namespace engram;

namespace {

// Environment 0 plays episodes of 1 step, environment i of 1 + 4 i; every step pays 1 + episode / 100; the long ones
// succeed.
ProbeRules unequal() {
  return {2,
          1,
          20,
          [](ProbeRow& row) { row.state = 1 + 4 * row.environment; },
          [](ProbeRow& row, int) -> Outcome {
            row.success = row.environment > 0;
            return {1 + static_cast<float>(row.episode) / 100, row.step == row.state ? End::kTerminated : End::kNone};
          },
          [](const ProbeRow&, float* observation) { observation[0] = 1; }};
}

Rollout unequal_rollout(int size) {
  const TaskInfo task = ProbeEnv(unequal(), 1).info();
  return probe_rollout(
      unequal(), std::make_shared<AgentNetwork>(NetworkOptions{.hidden_width = 4}, small_backbone("none", 4), task),
      size);
}

// The reward tells the action; episodes have 20 steps.
ProbeRules telling(int actions) {
  return {actions,
          1,
          20,
          [](ProbeRow&) {},
          [](ProbeRow& row, int action) -> Outcome {
            return {static_cast<float>(action), row.step == 20 ? End::kTerminated : End::kNone};
          },
          [](const ProbeRow&, float* observation) { observation[0] = 1; }};
}

// Of environment 0's next episode, played on from where the rollout is.
double next_return(Rollout& rollout, ActionChoice choice) {
  while (true)
    for (const RecordedEpisode& episode : rollout.play(choice).episodes)
      if (episode.environment == 0) return episode.total_reward;
}

// An agent for telling(2), whose observation carries no news, so that greedy actions can only differ through dropout.
std::shared_ptr<AgentNetwork> differing_by_dropout() {
  torch::manual_seed(1);
  auto network = std::make_shared<AgentNetwork>(NetworkOptions{.hidden_width = 8, .dropout = 0.8},
                                                small_backbone("none", 8), ProbeEnv(telling(2), 1).info());
  scatter_weights(*network, 0.5);
  return network;
}

}  // namespace

TEST_CASE("every environment plays its quota, however long its episodes are") {
  Rollout rollout = unequal_rollout(3);
  const auto results = evaluate(rollout, 8, ActionChoice::kGreedy);
  REQUIRE(results.size() == 8);
  const std::vector<int> environment_of{0, 0, 0, 1, 1, 1, 2, 2};
  const std::vector<int> episode_of{0, 1, 2, 0, 1, 2, 0, 1};
  for (std::size_t i = 0; i < results.size(); ++i) {
    const int steps = 1 + 4 * environment_of[i];
    CHECK(results[i].steps == steps);
    CHECK(results[i].total_reward == doctest::Approx(steps * (1 + episode_of[i] / 100.0)).epsilon(1e-6));
    CHECK(results[i].success == (environment_of[i] > 0));
  }
}

TEST_CASE("fewer episodes than environments are played by the first ones, from the episode asked for") {
  Rollout rollout = unequal_rollout(3);
  const auto results = evaluate(rollout, 2, ActionChoice::kSample, 7);
  REQUIRE(results.size() == 2);
  CHECK(results[0].total_reward == doctest::Approx(1.07));
  CHECK(results[1].total_reward == doctest::Approx(5 * 1.07));
  CHECK_THROWS_AS(evaluate(rollout, 0, ActionChoice::kGreedy), std::invalid_argument);
}

TEST_CASE("an evaluation that is interrupted leaves off") {
  Rollout rollout = unequal_rollout(3);
  int asked = 0;
  const auto results = evaluate(rollout, 8, ActionChoice::kGreedy, 0, [&] { return ++asked > 3; });
  CHECK(asked == 4);
  CHECK(results.size() == 3);  // of environment 0 alone, whose episodes have one step
}

TEST_CASE("sampled actions are those of the first episode, whatever was drawn before") {
  const TaskInfo task = ProbeEnv(telling(3), 1).info();
  const auto network =
      std::make_shared<AgentNetwork>(NetworkOptions{.hidden_width = 4}, small_backbone("none", 4), task);
  Rollout rollout = probe_rollout(telling(3), network, 2);
  const auto returns = [&](std::uint32_t first) {
    std::vector<double> all;
    for (const EpisodeResult& result : evaluate(rollout, 6, ActionChoice::kSample, first))
      all.push_back(result.total_reward);
    return all;
  };
  const std::vector<double> first = returns(0);
  CHECK(first != returns(3));
  CHECK(first == returns(0));
  // Not those that collecting draws.
  network->eval();
  rollout.restart(0);
  rollout.draw_from(kTrainingActions);
  CHECK(next_return(rollout, ActionChoice::kSample) != first[0]);
}

TEST_CASE("the network is evaluated without dropout and gets its mode back") {
  const auto network = differing_by_dropout();
  Rollout rollout = probe_rollout(telling(2), network, 2);
  for (const bool training : {true, false}) {
    network->train(training);
    for (const EpisodeResult& result : evaluate(rollout, 4, ActionChoice::kGreedy))
      CHECK((result.total_reward == 0 || result.total_reward == 20));
    CHECK(network->is_training() == training);
    CHECK(network->backbone().is_training() == training);
  }
  // In training mode the dropout would have shown.
  network->train();
  rollout.restart(0);
  const double total = next_return(rollout, ActionChoice::kGreedy);
  CHECK(total > 0);
  CHECK(total < 20);
}

TEST_CASE("an evaluation with dropout repeats itself and leaves training's draws where they were") {
  const auto network = differing_by_dropout();
  Rollout rollout = probe_rollout(telling(2), network, 2, /*seed=*/1, /*first_environment=*/0,
                                  /*evaluates_with_dropout=*/true);
  const auto returns = [&](std::uint32_t first) {
    std::vector<double> all;
    for (const EpisodeResult& result : evaluate(rollout, 6, ActionChoice::kGreedy, first))
      all.push_back(result.total_reward);
    return all;
  };
  network->train();
  next_return(rollout, ActionChoice::kGreedy);
  const torch::Tensor draws = network->dropout_seed_tick(torch::kCPU).clone();
  const std::vector<double> first = returns(0);
  CHECK(std::ranges::any_of(first, [](double total) { return total > 0 && total < 20; }));
  CHECK(returns(6) != first);
  network->eval();
  CHECK(returns(0) == first);
  CHECK_FALSE(network->is_training());
  CHECK(torch::equal(network->dropout_seed_tick(torch::kCPU), draws));
}
