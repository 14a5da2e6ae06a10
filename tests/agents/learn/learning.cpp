// What the learner learns on tasks whose answers are known.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agents/learn/learner.h"
#include "agents/learn/registry.h"
#include "agents/learn/sac/sac.h"
#include "agents/play/episode_store.h"
#include "agents/play/evaluator.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/play/probe_env.h"
#include "tests/agents/play/probe_rollout.h"

using namespace engram;

namespace {

struct Training {
  int updates = 400;
  int envs = 16;  // one episode of each between updates_per_round updates
  int updates_per_round = 8;
  int batch = 32;
};

std::shared_ptr<AgentNetwork> train(const ProbeRules& rules, const BackboneConfig& backbone, const SacOptions& options,
                                    const Training& training) {
  torch::manual_seed(1);
  torch::set_num_threads(1);  // a second thread would wait more than compute at these sizes
  const TaskInfo task = ProbeEnv(rules, 1).info();
  const auto network = std::make_shared<AgentNetwork>(NetworkOptions{.hidden_width = 32, .dropout = 0}, backbone, task);
  Learner learner(learner_config(options), network);
  Rollout rollout = probe_rollout(rules, network, training.envs);
  EpisodeStore store({.batch_episodes = training.batch}, task, 1'000'000, torch::kCPU);  // all that is played
  Rng random(1, Purpose::kTest, 0, 0), replay(1, Purpose::kReplay, 0, 0);
  const auto collect_until = [&](std::int64_t count, bool at_random) {
    while (store.episodes() < count) {
      const Rollout::Played played = at_random ? rollout.play_random(random) : rollout.play(ActionChoice::kSample);
      store.add(rollout.recording(), played.episodes);
    }
  };
  collect_until(4 * training.envs, true);
  rollout.abandon_running();
  for (int update = 0; update < training.updates; ++update) {
    if (update % training.updates_per_round == 0) collect_until(store.episodes() + training.envs, false);
    learner.update(store.sample(replay));
  }
  return network;
}

double success_rate(const std::shared_ptr<AgentNetwork>& network, const ProbeRules& rules) {
  constexpr int kEpisodes = 200;
  Rollout rollout = probe_rollout(rules, network, 20, /*seed=*/2);
  double success = 0;
  for (const EpisodeResult& result : evaluate(rollout, kEpisodes, ActionChoice::kGreedy))
    success += result.success ? 1.0 / kEpisodes : 0;
  return success;
}

struct Values {
  std::array<std::array<double, 2>, 2> q, policy;  // [state][action]
};

// Of a network whose observation is the state, one-hot, and whose memory is `none`.
Values values(AgentNetwork& network) {
  const torch::NoGradGuard no_grad;
  network.eval();
  const auto features = network.backbone().forward(
      network.encode(torch::eye(2).unsqueeze(1), torch::zeros({2, 1}, torch::kInt64), torch::zeros({2, 1})));
  const auto q = torch::minimum(network.head("critic1", features), network.head("critic2", features));
  const auto policy = network.head("actor", features).softmax(-1);
  Values values;
  for (int state = 0; state < 2; ++state)
    for (int action = 0; action < 2; ++action) {
      values.q[state][action] = q[state][0][action].item<double>();
      values.policy[state][action] = policy[state][0][action].item<double>();
    }
  return values;
}

SacOptions fast_options() {
  SacOptions options;
  options.learning_rate = 3e-3;
  options.target_rate = 0.05;
  return options;
}

// Learning ends near the fixed point, not at it.
constexpr double kNear = 0.03;

}  // namespace

TEST_CASE("the two-state chain gets its soft optimal values") {
  constexpr double kAlpha = 0.5, kGamma = 0.8, kPay = 0.9;
  SacOptions options = fast_options();
  options.alpha = kAlpha;
  options.gamma = kGamma;
  const Values learnt = values(*train(two_state_chain(kPay), small_backbone("none", 16), options, {.updates = 1000}));
  // Backwards from the end: Q(1, .) = (1, 0); V(1) = alpha log(exp(1/alpha) + 1); Q(0, 0) = gamma V(1); Q(0, 1) = pay.
  const double value1 = kAlpha * std::log(std::exp(1 / kAlpha) + 1);
  const double first = kGamma * value1;
  CHECK(std::abs(learnt.q[1][0] - 1) <= kNear);
  CHECK(std::abs(learnt.q[1][1] - 0) <= kNear);
  CHECK(std::abs(learnt.q[0][0] - first) <= kNear);
  CHECK(std::abs(learnt.q[0][1] - kPay) <= kNear);
  // pi = softmax(Q / alpha)
  CHECK(std::abs(learnt.policy[1][0] - 1 / (1 + std::exp(-1 / kAlpha))) <= kNear);
  CHECK(std::abs(learnt.policy[0][0] - 1 / (1 + std::exp((kPay - first) / kAlpha))) <= kNear);
}

TEST_CASE("a truncated episode has the values of an endless one, a terminated one those of its rewards") {
  constexpr double kAlpha = 0.5, kGamma = 0.5;
  SacOptions options = fast_options();
  options.alpha = kAlpha;
  options.gamma = kGamma;
  // Endless: both states have the same value, V = gamma V + alpha log(exp(1/alpha) + 1).
  const double value = kAlpha * std::log(std::exp(1 / kAlpha) + 1) / (1 - kGamma);
  const Values endless =
      values(*train(alternation(2, End::kTruncated), small_backbone("none", 16), options, {.updates = 1000}));
  const Values single =
      values(*train(alternation(1, End::kTerminated), small_backbone("none", 16), options, {.updates = 500}));
  for (int state = 0; state < 2; ++state)
    for (int action = 0; action < 2; ++action) {
      const double reward = action == state ? 1 : 0;
      CHECK(std::abs(endless.q[state][action] - (reward + kGamma * value)) <= kNear);
      CHECK(std::abs(single.q[state][action] - reward) <= kNear);
    }
}

TEST_CASE("every backbone learns the identity") {
  const ProbeRules rules = identity_task(4);
  std::vector<std::string> names = kMemoryBackbones;
  names.push_back("none");
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto network = train(rules, small_backbone(name, 16), fast_options(), {.updates = 150});
    CHECK(success_rate(network, rules) >= 0.95);
  }
}

TEST_CASE("a bit is remembered by every recurrent backbone and not by `none`") {
  const ProbeRules rules = one_bit_memory(3);
  const auto success_after = [&](const std::string& name, int updates) {
    return success_rate(train(rules, small_backbone(name, 16), fast_options(), {.updates = updates}), rules);
  };
  for (const std::string& name : kMemoryBackbones) {
    CAPTURE(name);
    const bool gated = name == "lstm" || name == "gru";  // these need to find their gates first
    CHECK(success_after(name, gated ? 1500 : 300) >= 0.95);
  }
  // Half, within four standard errors of 200 episodes.
  CHECK(std::abs(success_after("none", 1500) - 0.5) <= 0.15);
}
