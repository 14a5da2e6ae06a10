#include "agents/trace.h"

#include <doctest/doctest.h>

#include <cstring>

#include "agents/trained_agent.h"

using namespace engram;

namespace {
constexpr int kEpisodes = 3;

Config small_config() {
  return Config::from_settings({{"task.name", "tmaze"},
                                {"task.corridor_length", "5"},
                                {"memory.name", "deltanet"},
                                {"memory.width", "8"},
                                {"run.seed", "3"}});
}
}  // namespace

TEST_CASE("a trace holds what the agent saw, computed and did") {
  const Config config = small_config();
  const auto environment = make_cpu_vec_env(config.task, 3, Purpose::kEvaluation, 1, 1);
  const auto network = make_network(config, environment->info(), torch::kCPU);
  network->eval();
  ShownPolicy policy(*environment, network, torch::kFloat32, 3, 0);
  const Trace trace = record_trace(*environment, policy, kEpisodes, ActionChoice::kSample, 10);

  const std::int64_t rows = 6 * kEpisodes;
  const auto tensor = [&](const char* name) { return trace.tensors.at(name); };
  CHECK(tensor("observations").sizes() == torch::IntArrayRef({rows, 2}));
  CHECK(tensor("features").sizes() == torch::IntArrayRef({rows, 8}));
  CHECK(tensor("q_values").sizes() == torch::IntArrayRef({rows, 4}));
  CHECK(tensor("final_observations").sizes() == torch::IntArrayRef({kEpisodes, 2}));
  CHECK(tensor("episode_starts").equal(torch::tensor({0, 6, 12}, torch::kInt64)));
  CHECK(tensor("episode_ends").equal(torch::ones({kEpisodes}, torch::kUInt8)));
  CHECK((tensor("action_probabilities").sum(1) - 1).abs().max().item<float>() < 1e-5);  // float32 rounding of a sum

  // Replaying the actions gives the same rewards; the network's parallel path over the observations gives the same
  // features and probabilities as the steps that acted.
  environment->reset_all(10);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (environment->end_N()[0] != End::kNone) environment->reset_finished();
    CHECK(std::memcmp(environment->observation_N().data(), tensor("observations")[row].data_ptr(), 8) == 0);
    environment->step(std::vector<std::int32_t>{tensor("actions")[row].item<std::int32_t>()});
    CHECK(environment->reward_N()[0] == tensor("rewards")[row].item<float>());
  }
  const torch::NoGradGuard no_grad;
  const auto observations = tensor("observations").view({kEpisodes, 6, 2});
  const auto encoded =
      network->encode(observations, torch::full({kEpisodes, 6}, 4, torch::kInt64), torch::zeros({kEpisodes, 6}));
  const auto features = network->backbone().forward(encoded).view({rows, 8});
  // Two float32 computations of the same numbers, in another order.
  CHECK(torch::allclose(features, tensor("features"), 1e-4, 1e-5));
  CHECK(torch::allclose(network->actor_logits(features).softmax(-1), tensor("action_probabilities"), 1e-4, 1e-5));
  for (int episode = 0; episode < kEpisodes; ++episode)
    CHECK(tensor("successes")[episode].item<bool>() == trace.results[episode].success);
}

TEST_CASE("a trace of several environments is refused") {
  const Config config = small_config();
  const auto environments = make_cpu_vec_env(config.task, 3, Purpose::kEvaluation, 2, 1);
  const auto network = make_network(config, environments->info(), torch::kCPU);
  ShownPolicy policy(*environments, network, torch::kFloat32, 3, 0);
  CHECK_THROWS_AS(record_trace(*environments, policy, 1, ActionChoice::kGreedy, 0), std::invalid_argument);
}
