// Time that runs out bootstraps and a fall does not, from the environment to the critics' targets: cart-poles are
// played, recorded, kept, gathered and learnt from.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "agents/learn/sac/sac.h"
#include "agents/play/episode_store.h"
#include "agents/play/recorded_env.h"
#include "tests/agents/act/small_agent.h"

using namespace engram;

namespace {

constexpr int kPoles = 4, kPoleSteps = 18;  // a random player's pole falls before as often as not
constexpr double kTemperature = 0.3, kDiscount = 0.9;

TaskConfig short_cartpole() {
  TaskConfig task("cartpole");
  task.options().set("task.max_steps", std::to_string(kPoleSteps));
  return task;
}

// How an episode ended, as the environment said itself.
struct Ended {
  End end;
  std::int64_t steps;
  std::vector<float> last_observation;
};

struct Recorded {
  EpisodeStore store;
  std::vector<Ended> ended;  // in the store's order
};

// Some episodes of random actions, and beside them the same environments stepped by hand.
Recorded play(const TaskConfig& task) {
  const auto make = [&] { return make_cpu_vec_env(task, 3, Purpose::kTraining, kPoles, 1); };
  const auto environments = make_recorded_env(make(), 1);
  const auto twins = make();
  Recorded recorded{EpisodeStore({}, task.info(), 10'000, torch::kCPU), {}};
  environments->restart(std::vector<std::uint32_t>(kPoles, 0));
  std::vector<std::uint32_t> number_N(kPoles);
  std::vector<std::int64_t> steps_N(kPoles);
  Rng random(9, Purpose::kTest, 0, 0);
  for (int step = 0; step < 200; ++step) {
    for (int i = 0; i < kPoles; ++i) {
      const auto action = static_cast<std::int32_t>(random.below(2));
      environments->rows().action_N[i] = action;
      twins->step_row(i, action);
    }
    environments->step();
    const std::vector<RecordedEpisode> episodes = environments->recording().look();
    recorded.store.add(environments->recording(), episodes);
    std::size_t looked_at = 0;
    for (int i = 0; i < kPoles; ++i) {
      ++steps_N[i];
      if (twins->end_N()[i] == End::kNone) continue;
      REQUIRE(looked_at < episodes.size());
      const RecordedEpisode& episode = episodes[looked_at++];
      CHECK(episode.environment == i);
      CHECK(episode.end == twins->end_N()[i]);
      std::vector<float> observation(2);
      std::memcpy(observation.data(), twins->observation_N().data() + i * 8, 8);
      recorded.ended.push_back({twins->end_N()[i], steps_N[i], observation});
      twins->reset_row(i, ++number_N[i]);
      steps_N[i] = 0;
    }
    REQUIRE(looked_at == episodes.size());
  }
  return recorded;
}

// The soft value of row `steps` of episode b, of the network stepped row by row.
double value_of_row(AgentNetwork& network, const EpisodeBatch& batch, std::int64_t b, std::int64_t steps) {
  const torch::NoGradGuard no_grad;
  MemoryState state = network.backbone().initial_state(1);
  torch::Tensor hidden;
  for (std::int64_t t = 0; t <= steps; ++t)
    hidden = network.backbone().step(
        network.encode(batch.observation[b][t].unsqueeze(0), batch.previous_action_BT1[b][t].unsqueeze(0),
                       batch.previous_reward_BT1[b][t].unsqueeze(0)),
        state);
  const auto q = torch::minimum(network.head("target_critic1", hidden), network.head("target_critic2", hidden));
  const auto policy = network.head("actor", hidden).softmax(-1);
  return (policy * (q - kTemperature * policy.log())).sum().item<double>();
}

// Targets of float32 networks, over a sequence and step by step: sums of some hundred terms of size 1.
constexpr double kNearTargets = 1e-4;

}  // namespace

TEST_CASE("the target of a cart-pole's last step has the next value where time ran out, and none where the pole fell") {
  const TaskConfig task = short_cartpole();
  Recorded recorded = play(task);
  const auto episodes = static_cast<std::int64_t>(recorded.ended.size());
  REQUIRE(recorded.store.episodes() == episodes);

  torch::manual_seed(1);
  const NetworkOptions options{.previous_action_width = 3, .previous_reward_width = 2, .hidden_width = 8, .dropout = 0};
  AgentNetwork network(options, small_backbone("gru", 8), task.info());
  scatter_weights(network, 0.5);

  std::vector<std::int64_t> all(recorded.ended.size());
  std::iota(all.begin(), all.end(), 0);
  EpisodeBatch batch = recorded.store.gather(all);
  const auto targets = [&] { return sac_loss(network, batch, torch::tensor(kTemperature), kDiscount).target_BT; };
  const torch::Tensor target_BT = targets();
  batch.terminated_BT =
      batch.mask_BT * (torch::arange(batch.mask_BT.size(1)) == (batch.steps_B - 1).unsqueeze(1)) - batch.terminated_BT;
  const torch::Tensor flipped_BT = targets();

  int fallen = 0, in_time = 0;
  for (std::int64_t b = 0; b < episodes; ++b) {
    const Ended& ended = recorded.ended[static_cast<std::size_t>(b)];
    REQUIRE(batch.steps_B[b].item<std::int64_t>() == ended.steps);
    for (int i = 0; i < 2; ++i)
      CHECK(batch.observation[b][ended.steps][i].item<float>() == ended.last_observation[static_cast<std::size_t>(i)]);
    const double reward = 1.0 / kPoleSteps, next = kDiscount * value_of_row(network, batch, b, ended.steps);
    REQUIRE(std::abs(next) > 100 * kNearTargets);  // what shall be told apart differs
    const bool truncated = ended.end == End::kTruncated;
    CHECK(truncated ==
          (std::abs(ended.last_observation[0]) <= 2.4f && std::abs(ended.last_observation[1]) <= 0.20944f));
    ++(truncated ? in_time : fallen);
    CHECK(std::abs(target_BT[b][ended.steps - 1].item<double>() - (reward + (truncated ? next : 0))) <= kNearTargets);
    CHECK(std::abs(flipped_BT[b][ended.steps - 1].item<double>() - (reward + (truncated ? 0 : next))) <= kNearTargets);
    // Before the end every step has the next value.
    for (const std::int64_t t : {std::int64_t{0}, ended.steps - 2}) {
      const double expected = reward + kDiscount * value_of_row(network, batch, b, t + 1);
      CHECK(std::abs(target_BT[b][t].item<double>() - expected) <= kNearTargets);
      CHECK(std::abs(flipped_BT[b][t].item<double>() - expected) <= kNearTargets);
    }
  }
  CHECK(fallen >= 10);
  CHECK(in_time >= 10);
}
