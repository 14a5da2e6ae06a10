#include "agents/study/trace.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "agents/run/trained/trained_agent.h"
#include "tests/agents/act/state_values.h"

using namespace engram;

namespace {

constexpr std::uint32_t kFirst = 10;

Config small_config(const Settings& more = {}) {
  Settings settings = {{"task.name", "tmaze"},
                       {"task.corridor_length", "5"},
                       {"memory.name", "deltanet"},
                       {"memory.width", "8"},
                       {"run.seed", "3"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return Config::from_settings(settings);
}

// What traces and evaluates an agent with fresh weights.
struct Stage {
  explicit Stage(const Config& config, int episodes)
      : network(make_network(config, config.task.info(), torch::kCPU)),
        rollout(make_rollout(config, network, torch::kCPU, Purpose::kEvaluation, evaluation_envs(episodes), 1)),
        environments(make_cpu_vec_env(config.task, config.run.seed, Purpose::kEvaluation, rollout->size(), 1)),
        policy(*environments, network, torch::kFloat32, config.run.seed, 0),
        episodes(episodes) {}

  Trace trace(ActionChoice choice) { return record_trace(*rollout, *environments, policy, episodes, choice, kFirst); }
  std::vector<EpisodeResult> evaluate(ActionChoice choice) {
    return engram::evaluate(*rollout, episodes, choice, kFirst);
  }

  std::shared_ptr<AgentNetwork> network;
  std::unique_ptr<Rollout> rollout;
  std::unique_ptr<VecEnv> environments;
  ShownPolicy policy;
  int episodes;
};

bool same(const std::vector<EpisodeResult>& a, const std::vector<EpisodeResult>& b) {
  return std::ranges::equal(a, b, [](const EpisodeResult& x, const EpisodeResult& y) {
    return x.total_reward == y.total_reward && x.success == y.success && x.steps == y.steps;
  });
}

}  // namespace

TEST_CASE("a trace holds what the agent saw, computed and did") {
  constexpr int kEpisodes = 3;
  const Config config = small_config();
  Stage stage(config, kEpisodes);
  stage.network->eval();
  const Trace trace = stage.trace(ActionChoice::kSample);

  const std::int64_t rows = 6 * kEpisodes;
  const auto tensor = [&](const char* name) { return trace.tensors.at(name); };
  CHECK(tensor("observations").sizes() == torch::IntArrayRef({rows, 2}));
  CHECK(tensor("features").sizes() == torch::IntArrayRef({rows, 8}));
  CHECK(tensor("q_values").sizes() == torch::IntArrayRef({rows, 4}));
  CHECK_FALSE(trace.tensors.contains("values"));
  CHECK(tensor("final_observations").sizes() == torch::IntArrayRef({kEpisodes, 2}));
  CHECK(tensor("episode_starts").equal(torch::tensor({0, 6, 12}, torch::kInt64)));
  CHECK(tensor("episode_ends").equal(torch::ones({kEpisodes}, torch::kUInt8)));
  CHECK((tensor("action_probabilities").sum(1) - 1).abs().max().item<float>() < 1e-5);  // float32 rounding of a sum

  // The network's parallel path over the observations gives the same features and probabilities as the steps that
  // acted.
  const torch::NoGradGuard no_grad;
  const auto observations = tensor("observations").view({kEpisodes, 6, 2});
  const auto encoded =
      stage.network->encode(observations, torch::full({kEpisodes, 6}, 4, torch::kInt64), torch::zeros({kEpisodes, 6}));
  const auto features = stage.network->backbone().forward(encoded).view({rows, 8});
  // Two float32 computations of the same numbers, in another order.
  CHECK(torch::allclose(features, tensor("features"), 1e-4, 1e-5));
  CHECK(
      torch::allclose(stage.network->head("actor", features).softmax(-1), tensor("action_probabilities"), 1e-4, 1e-5));
}

TEST_CASE("a trace of an agent with values of states has one number a step for them") {
  Config config = small_config();
  config.learner = learner_config(StateValueOptions());
  Stage stage(config, 3);
  const TensorMap tensors = stage.trace(ActionChoice::kSample).tensors;
  CHECK_FALSE(tensors.contains("q_values"));
  const torch::Tensor& features = tensors.at("features");
  const torch::NoGradGuard no_grad;
  // float32, of more rows at once
  CHECK(torch::allclose(tensors.at("values"), stage.network->head("critic", features).squeeze(1), 1e-4, 1e-5));
  CHECK(tensors.at("values").sizes() == tensors.at("rewards").sizes());
}

TEST_CASE("a trace of an agent with a continuous action has its numbers, and what they were drawn from") {
  const Config config = Config::from_settings({{"task.name", "pendulum"},
                                               {"task.max_steps", "6"},
                                               {"memory.name", "gru"},
                                               {"memory.width", "8"},
                                               {"network.previous_action_width", "2"},
                                               {"learner.name", "ppo"}});
  Stage stage(config, 3);
  const Trace sampled = stage.trace(ActionChoice::kSample);
  CHECK_FALSE(sampled.tensors.contains("action_probabilities"));
  const torch::Tensor actions = sampled.tensors.at("actions"), means = sampled.tensors.at("action_means"),
                      deviations = sampled.tensors.at("action_deviations");
  CHECK((actions.scalar_type() == torch::kFloat32));
  for (const torch::Tensor& tensor : {actions, means, deviations}) CHECK(tensor.sizes() == torch::IntArrayRef({18, 1}));
  CHECK(torch::allclose(deviations, torch::full_like(deviations, 2)));
  CHECK((actions - means).abs().min().item<float>() > 0);
  CHECK((actions - means).abs().max().item<float>() < 2 * 6.7);
  CHECK(same(stage.evaluate(ActionChoice::kSample), sampled.results));

  const TensorMap greedy = stage.trace(ActionChoice::kGreedy).tensors;
  CHECK(torch::allclose(greedy.at("actions"), greedy.at("action_means"), 1e-5, 1e-6));
  CHECK(greedy.at("actions").std().item<float>() > 0);
}

TEST_CASE("a trace is of the episodes that an evaluation plays, whatever their number and the choice of actions") {
  for (const int episodes : {3, 70, 150})
    for (const ActionChoice choice : {ActionChoice::kGreedy, ActionChoice::kSample}) {
      CAPTURE(episodes);
      const Config config = small_config({{"task.penalty", "-0.1"}});
      Stage stage(config, episodes);
      const std::vector<EpisodeResult> before = stage.evaluate(choice);
      const Trace trace = stage.trace(choice);
      CHECK(same(trace.results, before));
      CHECK(same(stage.evaluate(choice), before));

      // Its episodes are those that anybody plays again by their number.
      const auto tensor = [&](const char* name) { return trace.tensors.at(name); };
      REQUIRE(tensor("episode_starts").size(0) == episodes);
      const auto actions = tensor("actions"), rewards = tensor("rewards"), observations = tensor("observations");
      std::int64_t row = 0;
      for (int index = 0; index < episodes; ++index) {
        REQUIRE(tensor("episode_starts")[index].item<std::int64_t>() == row);
        const auto [number_of_environment, number] = evaluation_episode(static_cast<std::uint32_t>(index));
        const auto alone = make_cpu_vec_env(config.task, 3, Purpose::kEvaluation, 1, 1, number_of_environment);
        alone->reset_all(kFirst + number);
        for (; alone->end_N()[0] == End::kNone; ++row) {
          REQUIRE(std::memcmp(alone->observation_N().data(), observations[row].data_ptr(), 8) == 0);
          alone->step(std::vector<std::int32_t>{actions[row].item<std::int32_t>()});
          REQUIRE(alone->reward_N()[0] == rewards[row].item<float>());
        }
        CHECK(std::memcmp(alone->observation_N().data(), tensor("final_observations")[index].data_ptr(), 8) == 0);
        CHECK((alone->success_N()[0] != 0) == tensor("successes")[index].item<bool>());
      }
      CHECK(actions.size(0) == row);
      if (choice == ActionChoice::kGreedy)
        CHECK(tensor("action_probabilities").argmax(-1).to(torch::kInt32).equal(actions));
    }
}

TEST_CASE("with dropout a trace has the draws of the evaluation, and leaves those of training alone") {
  const Config config = small_config({{"evaluation.dropout", "true"}, {"network.dropout", "0.5"}});
  Stage stage(config, 70);
  const torch::Tensor draws = stage.network->dropout_seed_tick(torch::kCPU).clone();
  const Trace trace = stage.trace(ActionChoice::kGreedy);
  CHECK(same(trace.results, stage.evaluate(ActionChoice::kGreedy)));
  CHECK(trace.tensors.at("action_probabilities").argmax(-1).to(torch::kInt32).equal(trace.tensors.at("actions")));
  CHECK(stage.network->dropout_seed_tick(torch::kCPU).equal(draws));
}

TEST_CASE("a trace in other environments than those of the evaluation is refused") {
  Stage two(small_config(), 2), three(small_config(), 3);
  const auto trace = [](Stage& played, Stage& again) {
    record_trace(*played.rollout, *again.environments, again.policy, 3, ActionChoice::kGreedy, 0);
  };
  CHECK_THROWS_AS(trace(two, two), std::invalid_argument);
  CHECK_THROWS_AS(trace(three, two), std::invalid_argument);
  CHECK_NOTHROW(trace(three, three));
}
