#include "agents/device_episode_buffer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/gpu.h"

using namespace engram;
using engram::testing::skip_without_gpu;

namespace {

TaskInfo task_of(ElementType type, std::vector<std::int64_t> shape, int max_episode_steps) {
  TaskInfo task;
  task.name = "test";
  task.action_names = {"a", "b", "c"};
  task.observation = {type, std::move(shape)};
  task.max_episode_steps = max_episode_steps;
  return task;
}

Episode random_episode(const TaskInfo& task, std::int64_t steps, Rng& rng) {
  Episode episode;
  // Floats are any bits but those of a NaN, which equals nothing.
  for (std::int64_t i = 0; i < (steps + 1) * task.observation.bytes(); ++i)
    episode.observations.push_back(static_cast<std::byte>(rng.below(127)));
  for (std::int64_t t = 0; t < steps; ++t) {
    episode.actions.push_back(static_cast<std::int32_t>(rng.below(3)));
    episode.rewards.push_back(rng.uniform());
  }
  episode.end = rng.below(2) == 0 ? End::kTerminated : End::kTruncated;
  episode.success = rng.below(2) == 0;
  return episode;
}

// Plays the episodes side by side into the device's buffer, one environment each.
void record(DeviceEpisodeBuffer& buffer, const TaskInfo& task, const std::vector<Episode>& episodes) {
  const auto count = static_cast<std::int64_t>(episodes.size());
  const std::int64_t bytes = task.observation.bytes();
  const auto on_device = [](const torch::Tensor& tensor) { return tensor.to(torch::kCUDA); };
  const auto observations = [&](std::int64_t t) {
    torch::Tensor host = torch::zeros({count, bytes}, torch::kUInt8);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto* const all = reinterpret_cast<const std::uint8_t*>(episodes[i].observations.data());
      if (t <= episodes[i].steps()) std::copy_n(all + t * bytes, bytes, host.data_ptr<std::uint8_t>() + i * bytes);
    }
    return on_device(host);
  };
  const torch::Tensor slot_N = buffer.slots_for(static_cast<int>(count));
  const torch::Tensor running_N = torch::zeros({count}, torch::TensorOptions(torch::kCUDA).dtype(torch::kUInt8));
  const EpisodeRecorders recorders{static_cast<int>(count), slot_N.data_ptr<std::int64_t>(),
                                   running_N.data_ptr<std::uint8_t>()};
  begin_episodes(buffer.store(), recorders, observations(0).data_ptr(), nullptr);
  for (std::int64_t t = 0; t < task.max_episode_steps; ++t) {
    torch::Tensor action = torch::zeros({count}, torch::kInt32), reward = torch::zeros({count}),
                  end = torch::zeros({count}, torch::kUInt8), success = torch::zeros({count}, torch::kUInt8);
    for (std::int64_t i = 0; i < count; ++i) {
      const Episode& episode = episodes[i];
      if (t >= episode.steps()) continue;
      action[i] = episode.actions[t];
      reward[i] = episode.rewards[t];
      if (t != episode.steps() - 1) continue;
      end[i] = static_cast<int>(episode.end);
      success[i] = static_cast<int>(episode.success);
    }
    action = on_device(action), reward = on_device(reward), end = on_device(end), success = on_device(success);
    const torch::Tensor observation = observations(t + 1);
    record_step(buffer.store(), recorders,
                {action.data_ptr<std::int32_t>(), reward.data_ptr<float>(), end.data_ptr<std::uint8_t>(),
                 success.data_ptr<std::uint8_t>(), observation.data_ptr()},
                nullptr);
  }
  buffer.add_recorded(0);
}

// Nothing where the device's batch holds the host's, and only padding after it.
std::string difference(const EpisodeBatch& device, const EpisodeBatch& host, int num_actions) {
  const auto compare = [](const char* name, const torch::Tensor& on_device, const torch::Tensor& expected,
                          double padding) -> std::string {
    const torch::Tensor actual = on_device.cpu();
    if (actual.scalar_type() != expected.scalar_type()) return std::string(name) + ": another type";
    if (expected.dim() == 1) return torch::equal(actual, expected) ? "" : name;
    const std::int64_t time = expected.size(1);
    if (!torch::equal(actual.narrow(1, 0, time), expected)) return name;
    const torch::Tensor behind = actual.narrow(1, time, actual.size(1) - time);
    return (behind == padding).all().item<bool>() ? "" : std::string(name) + ": padding";
  };
  for (const std::string& found :
       {compare("observation", device.observation, host.observation, 0),
        compare("previous action", device.previous_action_BT1, host.previous_action_BT1, num_actions),
        compare("previous reward", device.previous_reward_BT1, host.previous_reward_BT1, 0),
        compare("action", device.action_BT, host.action_BT, 0), compare("reward", device.reward_BT, host.reward_BT, 0),
        compare("terminated", device.terminated_BT, host.terminated_BT, 0),
        compare("steps", device.steps_B, host.steps_B, 0), compare("mask", device.mask_BT, host.mask_BT, 0)})
    if (!found.empty()) return found;
  return "";
}

}  // namespace

TEST_CASE("batches are those of the replay on the host, for the same episodes and random numbers") {
  if (skip_without_gpu()) return;
  for (const TaskInfo& task : {task_of(ElementType::kUint8, {3, 5, 5}, 12), task_of(ElementType::kFloat32, {2}, 9)}) {
    const ReplayOptions options{.capacity_steps = 100'000, .minimum_episodes = 1, .batch_episodes = 16};
    EpisodeBuffer host(options, task);
    DeviceEpisodeBuffer device(options, task, 7, torch::kCUDA);
    Rng random(1, Purpose::kTest, 0, 0), host_draws(2, Purpose::kReplay, 0, 0), device_draws = host_draws;
    for (const int count : {1, 7, 3, 7}) {
      std::vector<Episode> episodes;
      for (int i = 0; i < count; ++i)
        episodes.push_back(
            random_episode(task, 1 + random.below(static_cast<std::uint32_t>(task.max_episode_steps)), random));
      record(device, task, episodes);
      for (Episode& episode : episodes) host.add(std::move(episode));
      CHECK(device.episodes() == host.episodes());
      for (int i = 0; i < 3; ++i) {
        const EpisodeBatch expected = host.sample(options.batch_episodes, host_draws, torch::kCPU);
        CHECK(difference(device.sample(device_draws), expected, task.num_actions()) == "");
      }
    }
    CHECK(host_draws.next() == device_draws.next());
    // Another draw is another batch: the comparison can fail.
    CHECK(difference(device.sample(device_draws), host.sample(options.batch_episodes, host_draws, torch::kCPU),
                     task.num_actions()) == "");
    host_draws.next();
    CHECK(difference(device.sample(device_draws), host.sample(options.batch_episodes, host_draws, torch::kCPU),
                     task.num_actions()) != "");
  }
}

TEST_CASE("the oldest episodes go when the capacity is exceeded, and none while its successor is being recorded") {
  if (skip_without_gpu()) return;
  const TaskInfo task = task_of(ElementType::kUint8, {2, 1, 2}, 5);
  const ReplayOptions options{.capacity_steps = 58, .minimum_episodes = 2, .batch_episodes = 64};
  EpisodeBuffer host(options, task);
  DeviceEpisodeBuffer device(options, task, 4, torch::kCUDA);
  CHECK(device.capacity() == 11);
  Rng random(1, Purpose::kTest, 0, 0), host_draws(2, Purpose::kReplay, 0, 0), device_draws = host_draws;
  for (const int count : {4, 4, 3, 1, 4, 2, 4, 4, 4}) {
    std::vector<Episode> episodes;
    for (int i = 0; i < count; ++i) episodes.push_back(random_episode(task, 5, random));
    if (host.episodes() > 0) {
      const EpisodeBatch expected = host.sample(options.batch_episodes, host_draws, torch::kCPU);
      device.slots_for(4);
      CHECK(difference(device.sample(device_draws), expected, 3) == "");
    }
    record(device, task, episodes);
    for (Episode& episode : episodes) host.add(std::move(episode));
    CHECK(device.episodes() == host.episodes());
    const EpisodeBatch expected = host.sample(options.batch_episodes, host_draws, torch::kCPU);
    CHECK(difference(device.sample(device_draws), expected, 3) == "");
  }
}

TEST_CASE("the tensors of a batch and of slots stay where they are") {
  if (skip_without_gpu()) return;
  const TaskInfo task = task_of(ElementType::kUint8, {2, 1, 2}, 5);
  DeviceEpisodeBuffer device({.capacity_steps = 50, .minimum_episodes = 2, .batch_episodes = 3}, task, 2, torch::kCUDA);
  Rng rng(1, Purpose::kTest, 0, 0);
  CHECK_THROWS_AS(device.sample(rng), std::logic_error);
  CHECK_THROWS_AS(device.slots_for(3), std::invalid_argument);
  record(device, task, {random_episode(task, 5, rng), random_episode(task, 2, rng)});
  const EpisodeBatch first = device.sample(rng);
  const torch::Tensor slots = device.slots_for(2);
  const EpisodeBatch second = device.sample(rng);
  CHECK(first.observation.data_ptr() == second.observation.data_ptr());
  CHECK(first.steps_B.data_ptr() == second.steps_B.data_ptr());
  CHECK(slots.data_ptr() == device.slots_for(1).data_ptr());
  CHECK(first.observation.sizes() == torch::IntArrayRef{3, 6, 2, 1, 2});
}
