#include "agents/act/policy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agents/act/shown_policy.h"
#include "agents/play/episode_store.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/act/state_values.h"
#include "tests/agents/play/probe_env.h"

using namespace engram;

namespace {

const NetworkOptions kSmall{
    .previous_action_width = 3, .previous_reward_width = 2, .first_step_mark = true, .hidden_width = 8, .dropout = 0};

std::shared_ptr<AgentNetwork> scattered_network(const std::string& backbone, const TaskInfo& task) {
  torch::manual_seed(1);
  auto network = std::make_shared<AgentNetwork>(kSmall, small_backbone(backbone, 8), task);
  scatter_weights(*network, 0.5);
  return network;
}

NetworkPolicy policy_of(std::shared_ptr<AgentNetwork> network, int rows, std::uint64_t seed = 1,
                        MemorySpan span = MemorySpan::kEpisode) {
  return NetworkPolicy(std::move(network), torch::kFloat32, rows, seed, span, torch::kCPU);
}

// Features of the last of `steps` steps of one environment; the first observation is that of state `first`, all others
// are alike, rewards are 0, and so are the actions.
torch::Tensor features_after(const std::string& backbone, int first, bool training,
                             MemorySpan span = MemorySpan::kEpisode) {
  ProbeRules rules{1,
                   2,
                   5,
                   [first](ProbeRow& row) { row.state = first; },
                   [](ProbeRow& row, int) -> Outcome {
                     return {0, row.step == 5 ? End::kTerminated : End::kNone};
                   },
                   [](const ProbeRow& row, float* observation) {
                     observation[0] = row.step == 0 ? static_cast<float>(row.state) : 0.5f;
                   }};
  ProbeEnv environment(rules, 1);
  const auto network = scattered_network(backbone, environment.info());
  network->train(training);
  NetworkPolicy policy = policy_of(network, 1, 1, span);
  const ActingRows rows = rows_of(environment);
  for (int step = 0; step < 3; ++step) {
    policy.act(rows, ActionChoice::kGreedy);
    environment.step_row(0, rows.action_N[0].item<std::int32_t>());
  }
  policy.act(rows, ActionChoice::kGreedy);
  return policy.last_step().features_ND.clone();
}

}  // namespace

TEST_CASE("memory is carried while acting, in training mode as in evaluation mode") {
  for (const std::string& backbone : kMemoryBackbones)
    for (const bool training : {false, true}) {
      CAPTURE(backbone);
      CAPTURE(training);
      const auto difference =
          (features_after(backbone, 0, training) - features_after(backbone, 1, training)).abs().max();
      CHECK(difference.item<double>() > 1e-3);
      // Without dropout both modes act alike.
      CHECK(torch::equal(features_after(backbone, 1, false), features_after(backbone, 1, true)));
    }
  CHECK(torch::equal(features_after("none", 0, true), features_after("none", 1, true)));
}

TEST_CASE("a policy that remembers nothing acts at every step as at the first of an episode") {
  for (const std::string& backbone : kMemoryBackbones)
    for (const bool training : {false, true}) {
      CAPTURE(backbone);
      CHECK(torch::equal(features_after(backbone, 0, training, MemorySpan::kStep),
                         features_after(backbone, 1, training, MemorySpan::kStep)));
    }
}

TEST_CASE("what the policy computes step by step is what the learner computes from the replayed episode") {
  for (const std::string& backbone : kMemoryBackbones) {
    CAPTURE(backbone);
    ProbeEnv environments(counting(6), 3);
    const auto network = scattered_network(backbone, environments.info());
    network->eval();
    NetworkPolicy policy = policy_of(network, 3);
    environments.reset_all();
    const ActingRows rows = rows_of(environments);

    std::vector<Episode> running_N(3);
    std::vector<std::vector<torch::Tensor>> features_N(3), q_N(3), probabilities_N(3);
    const auto observe = [&](int row) {
      const auto observation = environments.observation_N().subspan(row * 12, 12);
      running_N[row].observations.insert(running_N[row].observations.end(), observation.begin(), observation.end());
    };
    for (int row = 0; row < 3; ++row) observe(row);
    int episodes = 0;
    while (episodes < 12) {
      policy.act(rows, ActionChoice::kSample);
      const NetworkPolicy::Step step = policy.last_step();
      const std::vector<std::int32_t> action_N(rows.action_N.data_ptr<std::int32_t>(),
                                               rows.action_N.data_ptr<std::int32_t>() + 3);
      for (int row = 0; row < 3; ++row) {
        features_N[row].push_back(step.features_ND[row].clone());
        probabilities_N[row].push_back(step.probabilities_NA[row].clone());
        q_N[row].push_back(step.value_NK[row].clone());
      }
      environments.step(action_N);
      for (int row = 0; row < 3; ++row) {
        running_N[row].actions.push_back(action_N[row]);
        running_N[row].rewards.push_back(environments.reward_N()[row]);
        observe(row);
      }
      const std::vector<End> end_N(environments.end_N().begin(), environments.end_N().end());
      environments.reset_finished();
      for (int row = 0; row < 3; ++row) {
        if (end_N[row] == End::kNone) continue;
        ++episodes;
        rows.fresh_N.data_ptr<std::uint8_t>()[row] = 1;
        EpisodeStore store({}, environments.info(), 10, torch::kCPU);
        running_N[row].end = end_N[row];
        store.add(running_N[row]);
        const torch::NoGradGuard no_grad;
        const EpisodeBatch batch = store.gather({0});
        const auto encoded = network->encode(batch.observation, batch.previous_action_BT1, batch.previous_reward_BT1);
        const std::int64_t steps = batch.action_BT.size(1);
        const auto features = network->backbone().forward(encoded)[0].narrow(0, 0, steps);
        const auto q = torch::minimum(network->head("critic1", features), network->head("critic2", features));
        // float32, another order of the same sums.
        const auto close = [](const torch::Tensor& a, const std::vector<torch::Tensor>& b) {
          return torch::allclose(a, torch::stack(b), 1e-4, 1e-4);
        };
        CHECK(close(features, features_N[row]));
        CHECK(close(q, q_N[row]));
        CHECK(close(network->head("actor", features).softmax(-1), probabilities_N[row]));
        running_N[row] = {};
        observe(row);
        features_N[row].clear();
        q_N[row].clear();
        probabilities_N[row].clear();
      }
    }
  }
}

TEST_CASE("a fresh row forgets and leaves the others alone") {
  for (const std::string& backbone : kMemoryBackbones) {
    CAPTURE(backbone);
    const auto network = scattered_network(backbone, vector_task(1, 2, 20));
    NetworkPolicy policy = policy_of(network, 3);
    // The same is seen at every step; the reward is 0.5 but at an episode's beginning.
    const ActingRows rows{torch::ones({3, 1}), torch::zeros({3}), torch::ones({3}, torch::kUInt8),
                          torch::zeros({3}, torch::kInt32)};
    const auto features = [&] {
      policy.act(rows, ActionChoice::kGreedy);
      CHECK((rows.fresh_N == 0).all().item<bool>());
      torch::Tensor reward_N = rows.reward_N;
      reward_N.fill_(0.5);
      return policy.last_step().features_ND.clone();
    };
    const auto begin = [&](std::int64_t row) {
      rows.fresh_N[row] = 1;
      rows.reward_N[row] = 0;
      rows.action_N[row] = 1;  // of the episode before
    };
    std::vector<torch::Tensor> all;
    for (int step = 0; step < 8; ++step) {
      if (step == 4) begin(1);
      all.push_back(features());
      CHECK(torch::allclose(all[step][0], all[step][2], 1e-5, 1e-6));
      if (step >= 4) CHECK(torch::allclose(all[step][1], all[step - 4][1], 1e-5, 1e-6));
      if (step >= 4) CHECK_FALSE(torch::allclose(all[step][0], all[step - 4][0], 1e-3, 1e-3));
    }
    for (int row = 0; row < 3; ++row) begin(row);
    CHECK(torch::allclose(features(), all[0], 1e-5, 1e-6));
  }
}

TEST_CASE("sampled actions follow the probabilities and their stream; greedy ones are the most probable") {
  constexpr int kRows = 2000;
  ProbeEnv environments(identity_task(4), kRows);
  environments.reset_all();
  const auto network = scattered_network("none", environments.info());
  network->eval();
  const auto shown = [&](std::uint32_t stream) {
    return ShownPolicy(environments, network, torch::kFloat32, 7, stream);
  };
  ShownPolicy policy = shown(3), other = shown(4);
  const ShownPolicy::Step step = policy.act(ActionChoice::kSample);
  CHECK(step.action_N == shown(3).act(ActionChoice::kSample).action_N);
  CHECK(step.action_N != other.act(ActionChoice::kSample).action_N);
  // A policy that others share begins the same stream on demand.
  NetworkPolicy drawing = policy_of(network, kRows, 7);
  const ActingRows rows = rows_of(environments);
  for (int again = 0; again < 2; ++again) {
    drawing.draw_from(3);
    rows.fresh_N.fill_(1);
    drawing.act(rows, ActionChoice::kSample);
    CHECK(std::equal(step.action_N.begin(), step.action_N.end(), rows.action_N.const_data_ptr<std::int32_t>()));
  }

  const auto probability_N = step.probabilities_NA.select(1, 1).to(torch::kFloat64);
  const double expected = probability_N.sum().item<double>();
  const double deviation = std::sqrt((probability_N * (1 - probability_N)).sum().item<double>());
  REQUIRE(deviation > 1);
  CHECK(std::abs(static_cast<double>(std::ranges::count(step.action_N, 1)) - expected) <= 4 * deviation);

  const ShownPolicy::Step greedy = policy.act(ActionChoice::kGreedy);
  const auto argmax = greedy.probabilities_NA.argmax(-1).to(torch::kInt32).contiguous();
  CHECK(std::equal(greedy.action_N.begin(), greedy.action_N.end(), argmax.data_ptr<std::int32_t>()));
}

TEST_CASE("what is shown is what the same network computes that plays") {
  for (const std::string& backbone : kMemoryBackbones) {
    CAPTURE(backbone);
    ProbeEnv environments(counting(6), 2);
    const auto network = scattered_network(backbone, environments.info());
    network->eval();
    ShownPolicy shown(environments, network, torch::kFloat32, 1, 0);
    NetworkPolicy plays = policy_of(network, 2);
    ActingRows rows = rows_of(environments);
    for (int step = 0; step < 30; ++step) {
      const ShownPolicy::Step seen = shown.act(ActionChoice::kSample);
      plays.act(rows, ActionChoice::kSample);
      const NetworkPolicy::Step computed = plays.last_step();
      CHECK(torch::equal(seen.features_ND, computed.features_ND));
      CHECK(torch::equal(seen.probabilities_NA, plays.probabilities_NA()));
      CHECK(torch::equal(seen.value_NK, computed.value_NK));
      CHECK(std::ranges::equal(seen.action_N, std::span(rows.action_N.const_data_ptr<std::int32_t>(), 2)));
      environments.step(seen.action_N);
      if (environments.end_N()[0] == End::kNone && environments.end_N()[1] == End::kNone) continue;
      environments.reset_all(static_cast<std::uint32_t>(step));
      shown.begin_episodes();
      rows.fresh_N.fill_(1);
    }
  }
}

TEST_CASE("a step has the values of actions, or of the state alone, as the agent's learner has them") {
  for (const LearnerConfig& learner :
       {LearnerConfig("sac"), LearnerConfig("dqn"), learner_config(StateValueOptions())}) {
    CAPTURE(learner.name());
    const bool of_states = learner.name() == "state_values";
    ProbeEnv environments(counting(6), 2);
    torch::manual_seed(1);
    const auto network =
        std::make_shared<AgentNetwork>(kSmall, small_backbone("gru", 8), environments.info(), 0, learner);
    scatter_weights(*network, 0.5);
    ShownPolicy shown(environments, network, torch::kFloat32, 1, 0);
    const ShownPolicy::Step step = shown.act(ActionChoice::kSample);
    CHECK(shown.values_are_of_actions() == !of_states);
    CHECK(step.value_NK.sizes() == torch::IntArrayRef({2, of_states ? 1 : environments.info().num_actions()}));
    if (of_states) CHECK(torch::equal(step.value_NK, network->head("critic", step.features_ND)));
  }
}

TEST_CASE("a diverged network and a wrong number of environments are errors") {
  ProbeEnv environments(identity_task(4), 2), three(identity_task(4), 3);
  const auto network = scattered_network("none", environments.info());
  NetworkPolicy policy = policy_of(network, 2);
  CHECK_THROWS_AS(policy.act(rows_of(three), ActionChoice::kGreedy), std::invalid_argument);
  network->trainable_parameters().front().detach().fill_(std::numeric_limits<float>::quiet_NaN());
  CHECK_THROWS_AS(policy.act(rows_of(environments), ActionChoice::kGreedy), std::runtime_error);
}
