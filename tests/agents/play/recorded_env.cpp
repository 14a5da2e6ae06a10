#include "agents/play/recorded_env.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "agents/play/episode_store.h"
#include "envs/vec/cpu_vec_env.h"
#include "tests/agents/learn/batches.h"
#include "tests/agents/play/probe_rollout.h"
#include "tests/envs/vec/ragged_task.h"

using namespace engram;
using engram::testing::RaggedTask;

namespace {

constexpr int kEnvs = 5, kSteps = 2000;

std::unique_ptr<VecEnv> ragged_envs() {
  return std::make_unique<CpuVecEnv<RaggedTask>>(RaggedTask::Options{}, 3, Purpose::kTraining, kEnvs, 1);
}

// Actions of all environments for a step; now and then none.
std::vector<std::int32_t> draw_actions(Rng& random, bool some_wait) {
  std::vector<std::int32_t> action_N;
  for (int i = 0; i < kEnvs; ++i)
    action_N.push_back(some_wait && random.below(4) == 0 ? kNoAction : static_cast<std::int32_t>(random.below(3)));
  return action_N;
}

// All episodes of the environments, by environment, each a vector of its own.
std::vector<std::vector<Episode>> plain_episodes(bool some_wait) {
  const auto environments = ragged_envs();
  const std::size_t bytes = RaggedTask::kElements;
  std::vector<Episode> running_N(kEnvs);
  std::vector<std::vector<Episode>> episodes_N(kEnvs);
  const auto observe = [&](int i) {
    const auto observation = environments->observation_N().subspan(static_cast<std::size_t>(i) * bytes, bytes);
    running_N[i].observations.insert(running_N[i].observations.end(), observation.begin(), observation.end());
  };
  for (int i = 0; i < kEnvs; ++i) observe(i);
  Rng random(9, Purpose::kTest, 0, 0);
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<std::int32_t> action_N = draw_actions(random, some_wait);
    for (int i = 0; i < kEnvs; ++i) {
      if (action_N[i] == kNoAction) continue;
      environments->step_row(i, action_N[i]);
      running_N[i].actions.push_back(action_N[i]);
      running_N[i].rewards.push_back(environments->reward_N()[i]);
      observe(i);
      if (environments->end_N()[i] == End::kNone) continue;
      running_N[i].end = environments->end_N()[i];
      running_N[i].success = environments->success_N()[i] != 0;
      episodes_N[i].push_back(std::move(running_N[i]));
      environments->reset_row(i, static_cast<std::uint32_t>(episodes_N[i].size()));
      running_N[i] = {};
      running_N[i].environment = i;
      running_N[i].number = static_cast<std::uint32_t>(episodes_N[i].size());
      observe(i);
    }
  }
  return episodes_N;
}

}  // namespace

TEST_CASE("what is recorded and kept is what was played, however seldom somebody looks") {
  for (const bool some_wait : {false, true}) {
    const std::vector<std::vector<Episode>> expected_N = plain_episodes(some_wait);
    for (const int between_looks : {1, 7, 32}) {
      CAPTURE(some_wait);
      CAPTURE(between_looks);
      const auto environments = make_recorded_env(ragged_envs(), between_looks);
      const TaskInfo task = environments->info();
      environments->restart(std::vector<std::uint32_t>(kEnvs, 0));
      EpisodeStore kept({}, task, 2 * kEnvs * kSteps, torch::kCPU), expected({}, task, 2 * kEnvs * kSteps, torch::kCPU);
      std::vector<std::size_t> count_N(kEnvs);
      Rng random(9, Purpose::kTest, 0, 0);
      for (int step = 0; step < kSteps; ++step) {
        const std::vector<std::int32_t> action_N = draw_actions(random, some_wait);
        std::ranges::copy(action_N, environments->rows().action_N.data_ptr<std::int32_t>());
        environments->step();
        if (step % between_looks != between_looks - 1 && step != kSteps - 1) continue;
        const std::vector<RecordedEpisode> episodes = environments->recording().look();
        kept.add(environments->recording(), episodes);
        for (const RecordedEpisode& episode : episodes) {
          const int i = episode.environment;
          REQUIRE(count_N[i] < expected_N[i].size());
          const Episode& played = expected_N[i][count_N[i]++];
          CHECK(episode.number == played.number);
          CHECK(episode.steps == played.steps());
          CHECK(episode.total_reward == played.total_reward());
          CHECK(episode.end == played.end);
          CHECK((episode.success != 0) == played.success);
          expected.add(played);
        }
      }
      std::vector<std::int64_t> all;
      for (int i = 0; i < kEnvs; ++i) {
        CHECK(count_N[i] == expected_N[i].size());
        CHECK(environments->recording().steps_N()[i] ==
              static_cast<int>(environments->recording().running()[i].actions.size()));
      }
      REQUIRE(kept.episodes() == expected.episodes());
      REQUIRE(kept.episodes() > 500);
      for (std::int64_t i = 0; i < kept.episodes(); ++i) all.push_back(i);
      CHECK(difference(kept.gather(all), expected.gather(all), 3) == "");
      all.back() = 0;  // another batch: the comparison can fail
      CHECK(difference(kept.gather(all), expected.gather({0}), 3) != "");
    }
  }
}

TEST_CASE("rows say where an episode begins, and nothing is left of the last one") {
  const auto environments = make_recorded_env(ragged_envs(), 1);
  ActingRows rows = environments->rows();
  const std::vector<std::uint32_t> number_N{4, 0, 9, 2, 2};
  environments->restart(number_N);
  CHECK(rows.fresh_N.all().item<bool>());
  const auto plain = ragged_envs();
  for (int i = 0; i < kEnvs; ++i) plain->reset_row(i, number_N[static_cast<std::size_t>(i)]);
  const auto observation_is_plain = [&] {
    return std::ranges::equal(plain->observation_N(),
                              std::as_bytes(std::span(rows.observation_N.const_data_ptr<std::uint8_t>(),
                                                      static_cast<std::size_t>(rows.observation_N.numel()))));
  };
  CHECK(observation_is_plain());
  std::vector<std::uint32_t> running_N = number_N;
  bool began = false, went_on = false;
  for (int step = 0; step < 200; ++step) {
    rows.fresh_N.zero_();
    rows.action_N.fill_(step % 3);
    environments->step();
    for (int i = 0; i < kEnvs; ++i) {
      plain->step_row(i, step % 3);
      const bool ended = plain->end_N()[i] != End::kNone;
      if (ended) plain->reset_row(i, ++running_N[static_cast<std::size_t>(i)]);
      CHECK(rows.fresh_N[i].item<bool>() == ended);
      CHECK(rows.reward_N[i].item<float>() == (ended ? 0.0f : plain->reward_N()[i]));
      (ended ? began : went_on) = true;
    }
    CHECK(observation_is_plain());
    environments->recording().look();
  }
  CHECK((began && went_on));
  // Another beginning forgets what was recorded.
  environments->step();
  environments->restart(number_N);
  CHECK(environments->recording().look().empty());
  for (const RecordingMemory::Taken& taken : environments->recording().running()) CHECK(taken.actions.empty());
}
