#include "agents/episode_buffer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

using namespace engram;

namespace {

TaskInfo image_task() {
  TaskInfo task;
  task.name = "image";
  task.action_names = {"a", "b", "c"};
  task.observation = {ElementType::kUint8, {2, 1, 2}};
  task.max_episode_steps = 10;
  return task;
}

// Observation bytes, actions and rewards that name episode and step.
Episode numbered_episode(int number, int steps, End end) {
  Episode episode;
  for (int t = 0; t <= steps; ++t)
    for (int i = 0; i < 4; ++i) episode.observations.push_back(static_cast<std::byte>(100 * number + 10 * t + i));
  for (int t = 0; t < steps; ++t) {
    episode.actions.push_back((number + t) % 3);
    episode.rewards.push_back(static_cast<float>(number) + 0.1f * static_cast<float>(t + 1));
  }
  episode.end = end;
  return episode;
}

EpisodeBuffer buffer_of(const ReplayOptions& options, std::initializer_list<int> lengths) {
  EpisodeBuffer buffer(options, image_task());
  int number = 0;
  for (const int steps : lengths) {
    buffer.add(numbered_episode(number, steps, number == 1 ? End::kTruncated : End::kTerminated));
    ++number;
  }
  return buffer;
}

}  // namespace

TEST_CASE("a batch holds every row where the episode has it, and nothing behind its end") {
  const EpisodeBuffer buffer = buffer_of({}, {2, 5, 1});
  const EpisodeBatch batch = buffer.gather({2, 0, 1, 0}, torch::kCPU);
  CHECK((batch.observation.scalar_type() == torch::kUInt8));
  CHECK(batch.observation.sizes() == torch::IntArrayRef{4, 6, 2, 1, 2});
  CHECK(batch.action_BT.sizes() == torch::IntArrayRef{4, 5});
  const std::vector<int> episode_of{2, 0, 1, 0}, steps_of{1, 2, 5, 2};
  for (int b = 0; b < 4; ++b) {
    const int number = episode_of[b], steps = steps_of[b];
    CHECK(batch.steps_B[b].item<int>() == steps);
    for (int t = 0; t <= 5; ++t) {
      const auto pixels = batch.observation[b][t].flatten();
      for (int i = 0; i < 4; ++i)
        CHECK(pixels[i].item<int>() == (t <= steps ? static_cast<std::uint8_t>(100 * number + 10 * t + i) : 0));
      const bool has_previous = t >= 1 && t <= steps;
      CHECK(batch.previous_action_BT1[b][t].item<int>() == (has_previous ? (number + t - 1) % 3 : 3));
      CHECK(batch.previous_reward_BT1[b][t].item<float>() ==
            (has_previous ? static_cast<float>(number) + 0.1f * static_cast<float>(t) : 0.0f));
    }
    for (int t = 0; t < 5; ++t) {
      const bool valid = t < steps;
      CHECK(batch.mask_BT[b][t].item<float>() == (valid ? 1 : 0));
      CHECK(batch.action_BT[b][t].item<int>() == (valid ? (number + t) % 3 : 0));
      CHECK(batch.reward_BT[b][t].item<float>() ==
            (valid ? static_cast<float>(number) + 0.1f * static_cast<float>(t + 1) : 0.0f));
      // Episode 1 was truncated: it bootstraps.
      CHECK(batch.terminated_BT[b][t].item<float>() == (number != 1 && t == steps - 1 ? 1 : 0));
    }
  }
}

TEST_CASE("the oldest episodes go when the capacity is exceeded, but never below the least number") {
  ReplayOptions options{.capacity_steps = 10, .minimum_episodes = 2, .batch_episodes = 1};
  EpisodeBuffer buffer = buffer_of(options, {4, 4});
  buffer.add(numbered_episode(2, 2, End::kTerminated));
  CHECK(buffer.episodes() == 3);
  CHECK(buffer.steps() == 10);
  buffer.add(numbered_episode(3, 1, End::kTerminated));
  CHECK(buffer.episodes() == 3);
  CHECK(buffer.steps() == 7);
  CHECK(buffer.gather({0}, torch::kCPU).observation.flatten()[0].item<int>() == 100);
  buffer.add(numbered_episode(4, 9, End::kTerminated));
  CHECK(buffer.episodes() == 2);
  CHECK(buffer.steps() == 10);
  buffer.add(numbered_episode(5, 9, End::kTerminated));
  CHECK(buffer.episodes() == 2);
  CHECK(buffer.steps() == 18);
}

TEST_CASE("episodes are drawn uniformly, whatever their length, and the same again from the same stream") {
  const EpisodeBuffer buffer = buffer_of({}, {1, 6, 2, 3});
  Rng rng(1, Purpose::kTest, 0, 0), again(1, Purpose::kTest, 0, 0);
  constexpr int kDraws = 4000;
  const EpisodeBatch batch = buffer.sample(kDraws, rng, torch::kCPU);
  CHECK(torch::equal(batch.observation, buffer.sample(kDraws, again, torch::kCPU).observation));
  const std::vector<int> length_of{1, 6, 2, 3};
  double chi_squared = 0;
  for (const int length : length_of) {
    const double expected = kDraws / 4.0;
    const double drawn = (batch.steps_B == length).sum().item<double>();
    chi_squared += (drawn - expected) * (drawn - expected) / expected;
  }
  CHECK(chi_squared < 16.27);  // 99.9% of the distribution with 3 degrees of freedom
}

TEST_CASE("a malformed episode is refused, and so is a sample of nothing") {
  EpisodeBuffer buffer({}, image_task());
  Rng rng(1, Purpose::kTest, 0, 0);
  CHECK_THROWS_AS(buffer.sample(1, rng, torch::kCPU), std::logic_error);
  CHECK_THROWS_AS(buffer.add(Episode{}), std::invalid_argument);
  Episode episode = numbered_episode(0, 3, End::kTerminated);
  episode.rewards.pop_back();
  CHECK_THROWS_AS(buffer.add(episode), std::invalid_argument);
  episode = numbered_episode(0, 3, End::kTerminated);
  episode.observations.pop_back();
  CHECK_THROWS_AS(buffer.add(episode), std::invalid_argument);
  CHECK(buffer.episodes() == 0);
}

TEST_CASE("an episode's return is the sum of its rewards") {
  CHECK(numbered_episode(1, 2, End::kTerminated).total_reward() == doctest::Approx(2.3));
}
