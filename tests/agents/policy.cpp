#include "agents/policy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "agents/episode_buffer.h"
#include "tests/agents/probe_env.h"
#include "tests/agents/small_agent.h"

using namespace engram;

namespace {

const NetworkOptions kSmall{.previous_action_width = 3, .previous_reward_width = 2, .hidden_width = 8, .dropout = 0};

std::shared_ptr<AgentNetwork> scattered_network(const std::string& backbone, const TaskInfo& task) {
  torch::manual_seed(1);
  auto network = std::make_shared<AgentNetwork>(kSmall, small_backbone(backbone, 8), task);
  scatter_weights(*network, 0.5);
  return network;
}

// Features of the last of `steps` steps of one environment; the first observation is that of state `first`, all others
// are alike, rewards are 0, and so are the actions.
torch::Tensor features_after(const std::string& backbone, int first, bool training,
                             Remembering remembering = Remembering::kEpisode) {
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
  Policy policy(network, torch::kCPU, 1, 1, 0, remembering);
  for (int step = 0; step < 3; ++step) environment.step(policy.act(environment, ActionChoice::kGreedy).action_N);
  return policy.act(environment, ActionChoice::kGreedy).features_ND.clone();
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
      CHECK(torch::equal(features_after(backbone, 0, training, Remembering::kNothing),
                         features_after(backbone, 1, training, Remembering::kNothing)));
    }
}

TEST_CASE("what the policy computes step by step is what the learner computes from the replayed episode") {
  for (const std::string& backbone : kMemoryBackbones) {
    CAPTURE(backbone);
    ProbeEnv environments(counting(6), 3);
    const auto network = scattered_network(backbone, environments.info());
    network->eval();
    Policy policy(network, torch::kCPU, 3, 1, 0);
    environments.reset_all();

    std::vector<Episode> running_N(3);
    std::vector<std::vector<torch::Tensor>> features_N(3), q_N(3), probabilities_N(3);
    const auto observe = [&](int row) {
      const auto observation = environments.observation_N().subspan(row * 12, 12);
      running_N[row].observations.insert(running_N[row].observations.end(), observation.begin(), observation.end());
    };
    for (int row = 0; row < 3; ++row) observe(row);
    int episodes = 0;
    while (episodes < 12) {
      const Policy::Step& step = policy.act(environments, ActionChoice::kSample);
      const std::vector<std::int32_t> action_N = step.action_N;
      for (int row = 0; row < 3; ++row) {
        features_N[row].push_back(step.features_ND[row].clone());
        probabilities_N[row].push_back(step.probabilities_NA[row].clone());
        q_N[row].push_back(step.q_NA[row].clone());
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
        policy.reset_row(row);
        EpisodeBuffer buffer({}, environments.info());
        running_N[row].end = end_N[row];
        buffer.add(running_N[row]);
        const torch::NoGradGuard no_grad;
        const EpisodeBatch batch = buffer.gather({0}, torch::kCPU);
        const auto encoded = network->encode(batch.observation, batch.previous_action_BT1, batch.previous_reward_BT1);
        const std::int64_t steps = batch.action_BT.size(1);
        const auto features = network->backbone().forward(encoded)[0].narrow(0, 0, steps);
        const auto q = network->critics(features);
        // float32, another order of the same sums.
        const auto close = [](const torch::Tensor& a, const std::vector<torch::Tensor>& b) {
          return torch::allclose(a, torch::stack(b), 1e-4, 1e-4);
        };
        CHECK(close(features, features_N[row]));
        CHECK(close(torch::minimum(q.first, q.second), q_N[row]));
        CHECK(close(network->actor_logits(features).softmax(-1), probabilities_N[row]));
        running_N[row] = {};
        observe(row);
        features_N[row].clear();
        q_N[row].clear();
        probabilities_N[row].clear();
      }
    }
  }
}

TEST_CASE("a reset row starts afresh and leaves the others alone") {
  for (const std::string& backbone : kMemoryBackbones) {
    CAPTURE(backbone);
    // Endless: the observation never changes.
    ProbeRules rules{2,
                     1,
                     20,
                     [](ProbeRow&) {},
                     [](ProbeRow&, int) {
                       return Outcome{0.5f, End::kNone};
                     },
                     [](const ProbeRow&, float* observation) { observation[0] = 1; }};
    ProbeEnv environments(rules, 3);
    const auto network = scattered_network(backbone, environments.info());
    Policy policy(network, torch::kCPU, 3, 1, 0);
    std::vector<torch::Tensor> features;
    for (int step = 0; step < 8; ++step) {
      if (step == 4) policy.reset_row(1);
      features.push_back(policy.act(environments, ActionChoice::kGreedy).features_ND.clone());
      // The environments' rewards are those of a running episode: a fresh row must not look at them.
      environments.step(std::vector<std::int32_t>(3, 0));
      CHECK(torch::allclose(features[step][0], features[step][2], 1e-5, 1e-6));
      if (step >= 4) CHECK(torch::allclose(features[step][1], features[step - 4][1], 1e-5, 1e-6));
      if (step >= 4) CHECK_FALSE(torch::allclose(features[step][0], features[step - 4][0], 1e-3, 1e-3));
    }
    policy.reset_all();
    CHECK(torch::allclose(policy.act(environments, ActionChoice::kGreedy).features_ND, features[0], 1e-5, 1e-6));
  }
}

TEST_CASE("sampled actions follow the probabilities and their stream; greedy ones are the most probable") {
  constexpr int kRows = 2000;
  ProbeEnv environments(identity_task(4), kRows);
  environments.reset_all();
  const auto network = scattered_network("none", environments.info());
  Policy policy(network, torch::kCPU, kRows, 7, 3), same(network, torch::kCPU, kRows, 7, 3),
      other(network, torch::kCPU, kRows, 7, 4);
  network->eval();
  const Policy::Step step = policy.act(environments, ActionChoice::kSample);
  CHECK(step.action_N == same.act(environments, ActionChoice::kSample).action_N);
  CHECK(step.action_N != other.act(environments, ActionChoice::kSample).action_N);

  const auto probability_N = step.probabilities_NA.select(1, 1).to(torch::kFloat64);
  const double expected = probability_N.sum().item<double>();
  const double deviation = std::sqrt((probability_N * (1 - probability_N)).sum().item<double>());
  REQUIRE(deviation > 1);
  CHECK(std::abs(static_cast<double>(std::ranges::count(step.action_N, 1)) - expected) <= 4 * deviation);

  const Policy::Step greedy = policy.act(environments, ActionChoice::kGreedy);
  const auto argmax = greedy.probabilities_NA.argmax(-1).to(torch::kInt32).contiguous();
  CHECK(std::equal(greedy.action_N.begin(), greedy.action_N.end(), argmax.data_ptr<std::int32_t>()));
}

TEST_CASE("a diverged network and a wrong number of environments are errors") {
  ProbeEnv environments(identity_task(4), 2), three(identity_task(4), 3);
  const auto network = scattered_network("none", environments.info());
  Policy policy(network, torch::kCPU, 2, 1, 0);
  CHECK_THROWS_AS(policy.act(three, ActionChoice::kGreedy), std::invalid_argument);
  network->trainable_parameters().front().detach().fill_(std::numeric_limits<float>::quiet_NaN());
  CHECK_THROWS_AS(policy.act(environments, ActionChoice::kGreedy), std::runtime_error);
}
