#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "agents/play/episode_store.h"
#include "envs/vec/cpu_vec_env.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/learn/batches.h"
#include "tests/envs/vec/ragged_env.h"
#include "tests/envs/vec/ragged_task.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::make_ragged_cuda_env;
using engram::testing::RaggedTask;
using engram::testing::skip_without_gpu;

namespace {

constexpr std::int64_t kMostSteps = 100'000;

// Images whose rows have no alignment, and vectors.
std::vector<TaskInfo> stored_tasks() {
  TaskInfo odd = image_task(3, 12);
  odd.observation.parts = single_part({3, 5, 5});
  return {odd, vector_task(2, 3, 9), image_task(3, 33)};
}

struct Stores {
  EpisodeStore device, host;
  Rng device_draws{2, Purpose::kReplay, 0, 0}, host_draws = device_draws;

  Stores(const ReplayOptions& options, const TaskInfo& task, std::int64_t most_steps)
      : device(options, task, most_steps, torch::kCUDA), host(options, task, most_steps, torch::kCPU) {}
  // Of the next samples.
  std::string next_difference(int num_actions) {
    return difference(device.sample(device_draws), host.sample(host_draws), num_actions);
  }
};

}  // namespace

TEST_CASE("batches are those of the store on the host, for the same episodes and random numbers") {
  if (skip_without_gpu()) return;
  for (const TaskInfo& task : stored_tasks()) {
    Stores stores({.batch_episodes = 16}, task, kMostSteps);
    Rng random(1, Purpose::kTest, 0, 0);
    for (const int count : {1, 7, 3, 70}) {
      for (int i = 0; i < count; ++i) {
        const int steps = 1 + static_cast<int>(random.below(static_cast<std::uint32_t>(task.max_episode_steps)));
        const Episode episode =
            random_episode(task, steps, random.below(2) == 0 ? End::kTerminated : End::kTruncated, random);
        stores.device.add(episode);
        stores.host.add(episode);
      }
      CHECK(stores.device.episodes() == stores.host.episodes());
      CHECK(stores.device.steps() == stores.host.steps());
      for (int i = 0; i < 3; ++i) CHECK(stores.next_difference(task.num_actions()) == "");
    }
    CHECK(stores.host_draws.next() == stores.device_draws.next());
    stores.host_draws.next();  // another draw is another batch: the comparison can fail
    CHECK(stores.next_difference(task.num_actions()) != "");
  }
}

TEST_CASE("what is kept out of the rings is what the CPU keeps, again and again over the same rows") {
  if (skip_without_gpu()) return;
  constexpr int kEnvs = 37, kLooks = 32;
  const auto device = make_recorded_env(make_ragged_cuda_env(3, Purpose::kTraining, kEnvs), kLooks);
  const auto host = make_recorded_env(
      std::make_unique<CpuVecEnv<RaggedTask>>(RaggedTask::Options{}, 3, Purpose::kTraining, kEnvs, 1), kLooks);
  const TaskInfo task = host->info();
  // Kept within their steps, their number, and within rows that one look nearly fills.
  for (const auto& [capacity, minimum, most_steps] : {std::tuple(2000, 5, kMostSteps), std::tuple(10, 100, kMostSteps),
                                                      std::tuple(100'000, 1000, std::int64_t{800})}) {
    CAPTURE(capacity);
    CAPTURE(minimum);
    Stores stores({.capacity_steps = capacity, .minimum_episodes = minimum, .batch_episodes = 64}, task, most_steps);
    device->restart(std::vector<std::uint32_t>(kEnvs, 0));
    host->restart(std::vector<std::uint32_t>(kEnvs, 0));
    Rng random(4, Purpose::kTest, 0, 0);
    for (int look = 0; look < 40; ++look) {
      const int steps = look % 5 == 4 ? 3 : kLooks;
      for (int step = 0; step < steps; ++step) {
        torch::Tensor action_N = host->rows().action_N, on_device_N = device->rows().action_N;
        for (int i = 0; i < kEnvs; ++i)
          action_N.data_ptr<std::int32_t>()[i] =
              random.below(9) == 0 ? kNoAction : static_cast<std::int32_t>(random.below(3));
        on_device_N.copy_(action_N);
        host->step();
        device->step();
      }
      const auto ended = host->recording().look(), on_device = device->recording().look();
      REQUIRE(on_device.size() == ended.size());
      REQUIRE(ended.size() > 0);
      for (std::size_t i = 0; i < ended.size(); ++i) {
        CHECK(on_device[i].environment == ended[i].environment);
        CHECK(on_device[i].number == ended[i].number);
        CHECK(on_device[i].steps == ended[i].steps);
        CHECK(on_device[i].total_reward == ended[i].total_reward);
        CHECK(on_device[i].end == ended[i].end);
        CHECK(on_device[i].success == ended[i].success);
      }
      stores.device.add(device->recording(), on_device);
      stores.host.add(host->recording(), ended);
      REQUIRE(stores.device.episodes() == stores.host.episodes());
      REQUIRE(stores.device.steps() == stores.host.steps());
      REQUIRE(stores.next_difference(task.num_actions()) == "");
    }
    CHECK((device->recording().running() == host->recording().running()));
    // The oldest and the newest one, too.
    const std::vector<std::int64_t> ends{0, stores.host.episodes() - 1};
    CHECK(difference(stores.device.gather(ends), stores.host.gather(ends), task.num_actions()) == "");
  }
}

TEST_CASE("a learner on policy's batches are those of the store on the host") {
  if (skip_without_gpu()) return;
  for (const TaskInfo& task : stored_tasks()) {
    EpisodeStore device = EpisodeStore::of_iterations(task, kMostSteps, torch::kCUDA),
                 host = EpisodeStore::of_iterations(task, kMostSteps, torch::kCPU);
    Rng random(1, Purpose::kTest, 0, 0);
    for (int round = 0; round < 2; ++round) {
      constexpr std::int64_t kEpisodes = 150;  // more than one launch has
      std::vector<std::int64_t> all;
      for (std::int64_t i = 0; i < kEpisodes; ++i) {
        const int steps = 1 + static_cast<int>(random.below(static_cast<std::uint32_t>(task.max_episode_steps)));
        Episode episode = random_episode(task, steps, End::kTerminated, random);
        for (int t = 0; t < steps; ++t) episode.log_probs.push_back(-random.uniform());
        device.add(episode);
        host.add(episode);
        all.push_back(i);
      }
      const torch::Tensor value_BT = torch::randn({kEpisodes, task.max_episode_steps}), advantage_BT = value_BT.sin();
      device.put_advantages(all, value_BT.to(torch::kCUDA), advantage_BT.to(torch::kCUDA));
      host.put_advantages(all, value_BT, advantage_BT);
      std::ranges::reverse(all);
      CHECK(difference(device.gather(all), host.gather(all), task.num_actions()) == "");
      CHECK(difference(device.gather({3, 149}, 1, 4), host.gather({3, 149}, 1, 4), task.num_actions()) == "");
      device.clear();
      host.clear();
    }
  }
}

TEST_CASE("batches come in few sizes, and each stays where it is") {
  if (skip_without_gpu()) return;
  const TaskInfo task = vector_task(2, 3, 40);
  EpisodeStore device({.batch_episodes = 3}, task, kMostSteps, torch::kCUDA);
  Rng rng(1, Purpose::kTest, 0, 0);
  CHECK_THROWS_AS(device.sample(rng), std::logic_error);
  for (const int steps : {1, 5, 6, 36, 40}) device.add(random_episode(task, steps, End::kTerminated, rng));
  const auto steps_of = [&](std::int64_t episode) { return device.gather({episode}).action_BT.size(1); };
  CHECK(steps_of(0) == 5);  // eighths of 40
  CHECK(steps_of(1) == 5);
  CHECK(steps_of(2) == 10);
  CHECK(steps_of(3) == 40);
  CHECK(steps_of(4) == 40);
  const EpisodeBatch first = device.gather({4, 1, 1}), other = device.gather({2, 2, 2}),
                     second = device.gather({0, 4, 3});
  CHECK(first.observation.sizes() == torch::IntArrayRef{3, 41, 2});
  CHECK(first.observation.data_ptr() == second.observation.data_ptr());
  CHECK(first.steps_B.data_ptr() == second.steps_B.data_ptr());
  CHECK(other.observation.data_ptr() != first.observation.data_ptr());
  const TaskInfo short_task = vector_task(2, 3, 3);
  EpisodeStore few({}, short_task, kMostSteps, torch::kCUDA);
  few.add(random_episode(short_task, 2, End::kTerminated, rng));
  CHECK(few.gather({0}).action_BT.size(1) == 2);
}
