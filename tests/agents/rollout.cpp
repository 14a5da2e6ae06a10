#include "agents/collector.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/agents/probe_env.h"
#include "tests/agents/small_agent.h"

using namespace engram;

namespace {

constexpr int kMaxSteps = 6;

// A network whose sampled actions are as good as greedy, and depend on what it remembers.
std::shared_ptr<AgentNetwork> decided_network(const std::string& backbone, const TaskInfo& task, int seed = 3) {
  torch::manual_seed(seed);
  const NetworkOptions options{.previous_action_width = 3, .previous_reward_width = 2, .hidden_width = 8, .dropout = 0};
  auto network = std::make_shared<AgentNetwork>(options, small_backbone(backbone, 8), task);
  scatter_weights(*network, 1);
  const torch::NoGradGuard no_grad;
  network->named_parameters()["actor.output.weight"].mul_(1e4);
  network->named_parameters()["actor.output.bias"].zero_();  // so that what is seen and remembered decides
  return network;
}

float observed(const Episode& episode, int row, int element) {
  float value;
  std::memcpy(&value, episode.observations.data() + (row * 3 + element) * sizeof(float), sizeof(float));
  return value;
}

using EpisodesOf = std::map<int, std::vector<Episode>>;  // environment -> its episodes

// `episodes` episodes of environments first .. first + size - 1.
EpisodesOf collect(const std::string& backbone, int size, int first, std::size_t episodes, bool training,
                   int network_seed = 3) {
  ProbeEnv environments(counting(kMaxSteps), size, 1, first);
  const auto network = decided_network(backbone, environments.info(), network_seed);
  network->train(training);
  Policy policy(network, torch::kCPU, size, 1, 0);
  Collector collector(environments, policy, Rng(1, Purpose::kTest, 0, 0));
  EpisodesOf result;
  const auto enough = [&] {
    for (int row = 0; row < size; ++row)
      if (result[first + row].size() < episodes) return false;
    return true;
  };
  while (!enough())
    collector.step(
        [&](Episode episode) { result[static_cast<int>(observed(episode, 0, 0))].push_back(std::move(episode)); });
  return result;
}

void check_is_whole(const Episode& episode, int environment, int number) {
  const int steps = static_cast<int>(episode.steps());
  CHECK(steps == 1 + (environment * 5 + 3 * number) % kMaxSteps);
  CHECK(episode.end == (number % 2 == 0 ? End::kTerminated : End::kTruncated));
  CHECK(episode.success == (number % 2 == 0));
  REQUIRE(episode.observations.size() == (steps + 1) * 3 * sizeof(float));
  REQUIRE(static_cast<int>(episode.rewards.size()) == steps);
  for (int t = 0; t <= steps; ++t) {
    CHECK(observed(episode, t, 0) == static_cast<float>(environment));
    CHECK(observed(episode, t, 1) == static_cast<float>(number));
    CHECK(observed(episode, t, 2) == static_cast<float>(t));
  }
  for (int t = 0; t < steps; ++t)
    CHECK(episode.rewards[t] == static_cast<float>(t + 1) + 1 / (1 + static_cast<float>(episode.actions[t])));
}

}  // namespace

TEST_CASE("episodes of different lengths are whole, from the first observation to the last") {
  const EpisodesOf collected = collect("none", 4, 0, 8, true);
  for (const auto& [environment, episodes] : collected)
    for (std::size_t number = 0; number < episodes.size(); ++number)
      check_is_whole(episodes[number], environment, static_cast<int>(number));
}

TEST_CASE("each environment's episodes are those that it plays alone: memory is fresh at each start") {
  for (const std::string& backbone : kMemoryBackbones) {
    CAPTURE(backbone);
    int distinct = 0;
    // One random network may well do the same whatever it sees; not all of several.
    for (const int seed : {1, 2, 3, 4}) {
      EpisodesOf together = collect(backbone, 3, 0, 8, true, seed);
      for (int environment = 0; environment < 3; ++environment) {
        const auto alone = collect(backbone, 1, environment, 8, true, seed).at(environment);
        for (std::size_t number = 0; number < 8; ++number) {
          CHECK(together[environment][number].actions == alone[number].actions);
          CHECK((together[environment][number].observations == alone[number].observations));
          const auto& actions = alone[number].actions;
          distinct += std::ranges::count(actions, actions.front()) != static_cast<std::ptrdiff_t>(actions.size());
        }
      }
    }
    CHECK(distinct > 0);  // otherwise the comparison says nothing
  }
}

TEST_CASE("random episodes draw all actions, and one that began at random ends at random") {
  ProbeEnv environments(counting(kMaxSteps), 3);
  const auto network = decided_network("none", environments.info());
  Policy policy(network, torch::kCPU, 3, 1, 0);
  Collector collector(environments, policy, Rng(1, Purpose::kTest, 0, 0));
  std::map<int, int> episodes_of, actions;
  const auto finished = [&](const Episode& episode) {
    const int environment = static_cast<int>(observed(episode, 0, 0));
    check_is_whole(episode, environment, episodes_of[environment]++);
    for (const int action : episode.actions) ++actions[action];
  };
  for (int step = 0; step < 300; ++step) collector.step_random(finished);
  for (int action = 0; action < 3; ++action) CHECK(actions[action] > 200);

  // All rows now restart together often enough; after one random step the rest of each episode ignores the policy.
  const auto greedy_only = [&](bool random_first_step) {
    ProbeRules rules = counting(kMaxSteps);
    rules.start = [](ProbeRow& row) { row.state = kMaxSteps; };
    ProbeEnv same_length(rules, 40);
    Policy policy_40(network, torch::kCPU, 40, 1, 0);
    Collector collector_40(same_length, policy_40, Rng(1, Purpose::kTest, 0, 1));
    std::vector<Episode> ended;
    const auto keep = [&](Episode episode) { ended.push_back(std::move(episode)); };
    if (random_first_step) collector_40.step_random(keep);
    while (ended.empty()) collector_40.step(keep);
    // Actions of the last step: the network's are the same wherever the same was observed.
    std::map<int, int> last_actions;
    for (const Episode& episode : ended) ++last_actions[episode.actions.back()];
    return last_actions;
  };
  for (int action = 0; action < 3; ++action) CHECK(greedy_only(true)[action] >= 4);
}
