#include "agents/play/rollout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/tensors/state_archive.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/play/probe_env.h"
#include "tests/agents/play/probe_rollout.h"

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

// Adds the episodes that ended.
void keep(EpisodesOf& episodes, const Rollout& rollout, const Rollout::Played& played) {
  for (const RecordedEpisode& ended : played.episodes) {
    Episode episode = recorded_episode(rollout.recording(), ended);
    CHECK(episode.total_reward() == ended.total_reward);
    episodes[static_cast<int>(observed(episode, 0, 0))].push_back(std::move(episode));
  }
}

// At least `episodes` episodes of environments first .. first + size - 1.
EpisodesOf collect(const std::string& backbone, int size, int first, std::size_t episodes, bool training,
                   int network_seed = 3) {
  const ProbeRules rules = counting(kMaxSteps);
  const auto network = decided_network(backbone, ProbeEnv(rules, 1).info(), network_seed);
  network->train(training);
  Rollout rollout = probe_rollout(rules, network, size, 1, first);
  EpisodesOf result;
  const auto enough = [&] {
    for (int row = 0; row < size; ++row)
      if (result[first + row].size() < episodes) return false;
    return true;
  };
  while (!enough()) keep(result, rollout, rollout.play(ActionChoice::kSample));
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

TEST_CASE("random play draws all actions; giving up what began so, the policy begins at an episode's start") {
  const ProbeRules rules = counting(kMaxSteps);
  const auto network = decided_network("lstm", ProbeEnv(rules, 1).info());
  Rollout rollout = probe_rollout(rules, network, 3);
  rollout.abandon_running();  // nothing: no episode has had a step
  Rng random(1, Purpose::kTest, 0, 0);
  EpisodesOf episodes;
  const auto play = [&](int steps, bool at_random) {
    for (int step = 0; step < steps; ++step)
      keep(episodes, rollout, at_random ? rollout.play_random(random) : rollout.play(ActionChoice::kSample));
  };
  play(1, true);
  // Environment 0 has begun its next episode, the others are in their first one.
  rollout.abandon_running();
  play(40, false);
  const EpisodesOf expected = collect("lstm", 3, 0, 20, true);
  CHECK(episodes.at(0)[0].number == 0);
  for (int environment = 0; environment < 3; ++environment) {
    const std::vector<Episode>& played = episodes.at(environment);
    const std::size_t at_random = environment == 0 ? 1 : 0;
    REQUIRE(played.size() > 5);
    for (std::size_t i = at_random; i < played.size(); ++i) {
      const std::size_t number = i + 1 - at_random;
      CHECK(played[i].number == number);
      check_is_whole(played[i], environment, static_cast<int>(number));
      CHECK(played[i].actions == expected.at(environment)[number].actions);
    }
  }

  episodes.clear();
  rollout.restart(0);
  play(300, true);
  std::map<int, int> actions;
  for (const auto& [environment, played] : episodes)
    for (std::size_t number = 0; number < played.size(); ++number) {
      check_is_whole(played[number], environment, static_cast<int>(number));
      for (const int action : played[number].actions) ++actions[action];
    }
  for (int action = 0; action < 3; ++action) CHECK(actions[action] > 200);
}

TEST_CASE("a rollout restored between any two steps goes on as the one that was saved") {
  const ProbeRules rules = counting(kMaxSteps);
  std::vector<std::string> names = kMemoryBackbones;
  names.push_back("none");
  for (const std::string& backbone : names)
    for (const int steps : {0, 1, 5, 17}) {
      CAPTURE(backbone);
      CAPTURE(steps);
      const auto network = decided_network(backbone, ProbeEnv(rules, 1).info());
      network->named_parameters()["actor.output.weight"].detach().mul_(1e-4);  // so that actions are drawn
      Rollout rollout = probe_rollout(rules, network, 3), restored = probe_rollout(rules, network, 3);
      for (int step = 0; step < steps; ++step) rollout.play(ActionChoice::kSample);
      for (int step = 0; step < 9; ++step) restored.play(ActionChoice::kSample);
      StateArchive archive;
      rollout.visit_state(archive);
      SafetensorsFile file;
      for (const auto& [name, tensor] : archive.saved_tensors()) file.tensors[name] = tensor.clone();
      file.metadata = archive.saved_metadata();
      StateArchive saved(file, "the state");
      restored.visit_state(saved);
      saved.check_all_restored();
      CHECK(std::ranges::equal(restored.recording().steps_N(), rollout.recording().steps_N()));
      CHECK((restored.recording().running() == rollout.recording().running()));
      EpisodesOf expected, found;
      for (int step = 0; step < 40; ++step) {
        keep(expected, rollout, rollout.play(ActionChoice::kSample));
        keep(found, restored, restored.play(ActionChoice::kSample));
      }
      for (int environment = 0; environment < 3; ++environment) {
        const std::vector<Episode>&one = expected.at(environment), &other = found.at(environment);
        REQUIRE(one.size() == other.size());
        for (std::size_t i = 0; i < one.size(); ++i) {
          CHECK(one[i].number == other[i].number);
          CHECK(one[i].actions == other[i].actions);
          CHECK(one[i].rewards == other[i].rewards);
          CHECK((one[i].observations == other[i].observations));
          CHECK(one[i].end == other[i].end);
        }
      }
    }
}
