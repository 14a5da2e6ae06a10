#include "agents/play/episode_store.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "envs/vec/cpu_vec_env.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/learn/batches.h"
#include "tests/agents/play/probe_env.h"
#include "tests/envs/vec/ragged_task.h"

using namespace engram;
using engram::testing::RaggedTask;

namespace {

TaskInfo pixels_task() {
  TaskInfo task;
  task.name = "image";
  task.action.names = {"a", "b", "c"};
  task.observation = {ElementType::kUint8, single_part({2, 1, 2})};
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

constexpr std::int64_t kManySteps = 100'000;

EpisodeStore store_of(const ReplayOptions& options, std::initializer_list<int> lengths) {
  EpisodeStore store(options, pixels_task(), kManySteps, torch::kCPU);
  int number = 0;
  for (const int steps : lengths) {
    store.add(numbered_episode(number, steps, number == 1 ? End::kTruncated : End::kTerminated));
    ++number;
  }
  return store;
}

using MakeEnvironment = std::unique_ptr<VecEnv>();

std::unique_ptr<VecEnv> ragged_env() {
  return std::make_unique<CpuVecEnv<RaggedTask>>(RaggedTask::Options{}, 3, Purpose::kTraining, 1, 1);
}

// Nearly all episodes have one step or two, but there are some of 40.
std::unique_ptr<VecEnv> short_env() {
  ProbeRules rules = counting(40);
  rules.start = [](ProbeRow& row) { row.state = row.episode % 30 == 0 ? 40 : row.episode % 7 == 0 ? 2 : 1; };
  return std::make_unique<ProbeEnv>(rules, 1);
}

// Plays one episode after the other, with random actions.
class Episodes {
 public:
  explicit Episodes(MakeEnvironment make) : environment_(make()) {}

  Episode next() {
    Episode episode;
    episode.number = number_++;
    const auto observe = [&] {
      const auto observation = environment_->observation_N();
      episode.observations.insert(episode.observations.end(), observation.begin(), observation.end());
    };
    environment_->reset_row(0, episode.number);
    observe();
    while (environment_->end_N()[0] == End::kNone) {
      episode.actions.push_back(static_cast<std::int32_t>(random_.below(3)));
      environment_->step_row(0, episode.actions.back());
      episode.rewards.push_back(environment_->reward_N()[0]);
      observe();
    }
    episode.end = environment_->end_N()[0];
    return episode;
  }

 private:
  std::unique_ptr<VecEnv> environment_;
  Rng random_{4, Purpose::kTest, 0, 0};
  std::uint32_t number_ = 0;
};

// Which episodes are kept, as the options say it.
class PlainStore {
 public:
  PlainStore(const ReplayOptions& options, std::int64_t most_rows) : options_(options), most_rows_(most_rows) {}

  void add(std::int64_t episode, std::int64_t steps) {
    kept_.push_back({episode, steps});
    steps_ += steps;
    while ((steps_ > options_.capacity_steps && episodes() > options_.minimum_episodes) ||
           steps_ + episodes() > most_rows_) {
      steps_ -= kept_.front().steps;
      kept_.pop_front();
    }
  }
  std::int64_t oldest() const { return kept_.front().episode; }
  std::int64_t episodes() const { return static_cast<std::int64_t>(kept_.size()); }
  std::int64_t steps() const { return steps_; }

 private:
  struct Kept {
    std::int64_t episode, steps;
  };
  ReplayOptions options_;
  std::int64_t most_rows_;
  std::deque<Kept> kept_;
  std::int64_t steps_ = 0;
};

}  // namespace

TEST_CASE("a batch holds every row where the episode has it, and nothing behind its end") {
  EpisodeStore store = store_of({}, {2, 5, 1});
  const EpisodeBatch batch = store.gather({2, 0, 1, 0});
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
  EpisodeStore store = store_of(options, {4, 4});
  store.add(numbered_episode(2, 2, End::kTerminated));
  CHECK(store.episodes() == 3);
  CHECK(store.steps() == 10);
  store.add(numbered_episode(3, 1, End::kTerminated));
  CHECK(store.episodes() == 3);
  CHECK(store.steps() == 7);
  CHECK(store.gather({0}).observation.flatten()[0].item<int>() == 100);
  store.add(numbered_episode(4, 9, End::kTerminated));
  CHECK(store.episodes() == 2);
  CHECK(store.steps() == 10);
  store.add(numbered_episode(5, 9, End::kTerminated));
  CHECK(store.episodes() == 2);
  CHECK(store.steps() == 18);
}

TEST_CASE("episodes are drawn uniformly, whatever their length, and the same again from the same stream") {
  constexpr int kDraws = 4000;
  EpisodeStore store = store_of({.batch_episodes = kDraws}, {1, 6, 2, 3});
  Rng rng(1, Purpose::kTest, 0, 0), again(1, Purpose::kTest, 0, 0);
  const EpisodeBatch batch = store.sample(rng);
  CHECK(torch::equal(batch.observation, store.sample(again).observation));
  const std::vector<int> length_of{1, 6, 2, 3};
  double chi_squared = 0;
  for (const int length : length_of) {
    const double expected = kDraws / 4.0;
    const double drawn = (batch.steps_B == length).sum().item<double>();
    chi_squared += (drawn - expected) * (drawn - expected) / expected;
  }
  CHECK(chi_squared < 16.27);  // 99.9% of the distribution with 3 degrees of freedom
}

TEST_CASE("how long a batch will be is known before it is drawn, and it may be longer") {
  EpisodeStore store = store_of({.batch_episodes = 2}, {3, 8, 5, 1});
  Rng rng(1, Purpose::kReplay, 0, 0);
  for (int i = 0; i < 20; ++i) {
    const std::int64_t steps = store.sampled_steps(rng);
    Rng same = rng;
    const EpisodeBatch batch = store.sample(rng), longer = store.sample(same, 6);
    CHECK(batch.action_BT.size(1) == steps);
    CHECK(longer.action_BT.size(1) == std::max<std::int64_t>(steps, 6));
    CHECK(torch::equal(longer.steps_B, batch.steps_B));
    CHECK(difference(longer, batch, 3) == "");
  }
  CHECK(store_of({}, {}).sampled_steps(rng) == 0);
}

TEST_CASE("a malformed episode is refused, and so is a sample of nothing") {
  EpisodeStore store({.batch_episodes = 1}, pixels_task(), kManySteps, torch::kCPU);
  Rng rng(1, Purpose::kTest, 0, 0);
  CHECK_THROWS_AS(store.sample(rng), std::logic_error);
  CHECK_THROWS_AS(store.add(Episode{}), std::invalid_argument);
  Episode episode = numbered_episode(0, 3, End::kTerminated);
  episode.rewards.pop_back();
  CHECK_THROWS_AS(store.add(episode), std::invalid_argument);
  episode = numbered_episode(0, 3, End::kTerminated);
  episode.observations.pop_back();
  CHECK_THROWS_AS(store.add(episode), std::invalid_argument);
  CHECK_THROWS_AS(store.add(numbered_episode(0, pixels_task().max_episode_steps + 1, End::kTerminated)),
                  std::invalid_argument);
  CHECK(store.episodes() == 0);
}

TEST_CASE("rows are used again and again, and hold every episode that is kept") {
  const TaskInfo task = vector_task(2, 3, 40);
  Rng random(5, Purpose::kTest, 0, 0);
  // Kept within the steps, within the episodes, and within the rows where episodes are shorter than a row's share.
  struct Case {
    ReplayOptions options;
    std::uint32_t longest;
  };
  for (const Case& with : {Case{{.capacity_steps = 300, .minimum_episodes = 1}, 40},
                           Case{{.capacity_steps = 50, .minimum_episodes = 12}, 40},
                           Case{{.capacity_steps = 300, .minimum_episodes = 1}, 2},
                           Case{{.capacity_steps = 1, .minimum_episodes = 1}, 40}}) {
    CAPTURE(with.options.capacity_steps);
    CAPTURE(with.options.minimum_episodes);
    CAPTURE(with.longest);
    EpisodeStore store(with.options, task, kManySteps, torch::kCPU);
    const std::int64_t rows = with.options.rows(task, kManySteps);
    PlainStore plain(with.options, rows - 41);
    std::vector<Episode> all;
    std::int64_t added = 0;
    bool full = false;
    for (int i = 0; i < 3000; ++i) {
      const int steps = 1 + static_cast<int>(random.below(with.longest));
      all.push_back(random_episode(task, steps, i % 3 == 0 ? End::kTruncated : End::kTerminated, random));
      store.add(all.back());
      plain.add(i, steps);
      added += steps;
      full = full || plain.steps() < added;
      REQUIRE(store.episodes() == plain.episodes());
      REQUIRE(store.steps() == plain.steps());
      if (i % 20 != 0) continue;
      // Against a store of these alone.
      EpisodeStore fresh({}, task, kManySteps, torch::kCPU);
      std::vector<std::int64_t> kept;
      for (std::int64_t j = 0; j < plain.episodes(); ++j) {
        fresh.add(all[static_cast<std::size_t>(plain.oldest() + j)]);
        kept.push_back(j);
      }
      REQUIRE(difference(store.gather(kept), fresh.gather(kept), 3) == "");
    }
    CHECK(full);
    CHECK(added > 10 * rows);
  }
}

TEST_CASE("a run of few steps takes no more rows than it fills") {
  const TaskInfo task = vector_task(2, 3, 40);
  const ReplayOptions options{.capacity_steps = 1'000'000, .minimum_episodes = 1000};
  CHECK(options.rows(task, 800) == 800 + 800 / 8 + 2 * 41);
  CHECK(options.rows(task, kManySteps) > 40 * options.minimum_episodes);
  EpisodeStore store(options, task, 800, torch::kCPU);
  Rng random(5, Purpose::kTest, 0, 0);
  for (int i = 0; i < 20; ++i) store.add(random_episode(task, 40, End::kTerminated, random));
  CHECK(store.steps() == 800);
}

TEST_CASE("a restored store holds the same episodes and drops the same ones from then on") {
  const ReplayOptions options{.capacity_steps = 400, .minimum_episodes = 3, .batch_episodes = 16};
  for (MakeEnvironment* const make : {&ragged_env, &short_env})
    for (const int before : {1, 20, 61, 150, 333}) {
      CAPTURE(before);
      const TaskInfo task = make()->info();
      Episodes episodes(*make);
      EpisodeStore store(options, task, kManySteps, torch::kCPU), restored(options, task, kManySteps, torch::kCPU);
      for (int i = 0; i < before; ++i) store.add(episodes.next());
      restored.add(Episodes(*make).next());
      StateArchive archive;
      store.visit_state(archive, make);
      SafetensorsFile file;
      for (const auto& [name, tensor] : archive.saved_tensors()) file.tensors[name] = tensor.clone();
      file.metadata = archive.saved_metadata();
      StateArchive saved(file, "the state");
      restored.visit_state(saved, make);
      saved.check_all_restored();
      Rng draws(1, Purpose::kReplay, 0, 0), same_draws = draws;
      for (int i = 0; i < 1500; ++i) {
        REQUIRE(store.episodes() == restored.episodes());
        REQUIRE(store.steps() == restored.steps());
        REQUIRE(difference(restored.sample(same_draws), store.sample(draws), 3) == "");
        const Episode episode = episodes.next();
        store.add(episode);
        restored.add(episode);
      }
    }
}

namespace {

// Log-probabilities that name episode and step.
Episode with_log_probs(Episode episode, int number) {
  for (std::int64_t t = 0; t < episode.steps(); ++t)
    episode.log_probs.push_back(-static_cast<float>(10 * number + t + 1));
  return episode;
}

// Values and advantages that name the place in the call and the step.
std::pair<torch::Tensor, torch::Tensor> numbers(std::int64_t batch, std::int64_t steps) {
  const torch::Tensor number_BT = 100 * torch::arange(batch).unsqueeze(1) + torch::arange(steps);
  return {number_BT.to(torch::kFloat32) + 0.5f, -number_BT.to(torch::kFloat32)};
}

}  // namespace

TEST_CASE("a learner on policy's episodes keep log-probabilities, and what it makes of their steps") {
  EpisodeStore store = EpisodeStore::of_iterations(pixels_task(), 100, torch::kCPU);
  const std::vector<int> lengths{3, 1, 10, 4};
  for (int i = 0; i < 4; ++i) store.add(with_log_probs(numbered_episode(i, lengths[i], End::kTerminated), i));
  const auto [value_BT, advantage_BT] = numbers(2, 12);  // longer than the episodes
  store.put_advantages({2, 0}, value_BT, advantage_BT);
  store.put_advantages({3}, value_BT.narrow(0, 1, 1), advantage_BT.narrow(0, 1, 1));
  const EpisodeBatch batch = store.gather({0, 2, 3});
  for (std::int64_t b = 0; b < 3; ++b) {
    const int episode = std::vector{0, 2, 3}[static_cast<std::size_t>(b)],
              judged = std::vector{1, 0, 1}[static_cast<std::size_t>(b)];
    for (std::int64_t t = 0; t < 10; ++t) {
      const bool valid = t < lengths[static_cast<std::size_t>(episode)];
      CHECK(batch.log_prob_BT[b][t].item<float>() == (valid ? -static_cast<float>(10 * episode + t + 1) : 0));
      CHECK(batch.value_BT[b][t].item<float>() == (valid ? static_cast<float>(100 * judged + t) + 0.5f : 0));
      CHECK(batch.advantage_BT[b][t].item<float>() == (valid ? -static_cast<float>(100 * judged + t) : 0));
    }
  }
  CHECK_THROWS_AS(store.add(numbered_episode(0, 2, End::kTerminated)), std::invalid_argument);
  CHECK(batch.tensors().size() == 11);
  CHECK(EpisodeBatch::of(batch.tensors()).advantage_BT.is_same(batch.advantage_BT));
  CHECK(store_of({}, {2}).gather({0}).tensors().size() == 8);
}

TEST_CASE("none of an iteration's episodes is dropped, however short they are, until all are") {
  EpisodeStore store = EpisodeStore::of_iterations(pixels_task(), 100, torch::kCPU);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) store.add(with_log_probs(numbered_episode(i % 2, 1, End::kTerminated), i));
    CHECK(store.episodes() == 100);
    CHECK(store.gather({99}).log_prob_BT[0][0].item<float>() == -991);
    CHECK(store.gather({0}).log_prob_BT[0][0].item<float>() == -1);
    store.clear();
    CHECK(store.episodes() == 0);
    CHECK(store.steps() == 0);
  }
}

TEST_CASE("a batch may have empty episodes behind those that were chosen") {
  EpisodeStore store = store_of({}, {3, 2});
  const EpisodeBatch batch = store.gather({1, 0}, 1, 5), chosen = store.gather({1, 0});
  CHECK(batch.steps_B.size(0) == 5);
  const auto first_two = [](const EpisodeBatch& of) {
    std::vector<torch::Tensor> part;
    for (const torch::Tensor& tensor : of.tensors()) part.push_back(tensor.narrow(0, 0, 2));
    return EpisodeBatch::of(part);
  };
  CHECK(difference(first_two(batch), chosen, 3) == "");
  CHECK(batch.mask_BT.narrow(0, 2, 3).sum().item<float>() == 0);
  CHECK(batch.steps_B.narrow(0, 2, 3).sum().item<std::int64_t>() == 0);
  CHECK((batch.previous_action_BT1.narrow(0, 2, 3) == 3).all().item<bool>());
}

TEST_CASE("a restored store of a learner on policy has the same log-probabilities, values and advantages") {
  const TaskInfo task = ragged_env()->info();
  Episodes episodes(&ragged_env);
  EpisodeStore store = EpisodeStore::of_iterations(task, 1000, torch::kCPU),
               restored = EpisodeStore::of_iterations(task, 1000, torch::kCPU);
  std::vector<std::int64_t> all;
  for (int i = 0; i < 9; ++i) {
    store.add(with_log_probs(episodes.next(), i));
    all.push_back(i);
  }
  const auto [value_BT, advantage_BT] = numbers(9, task.max_episode_steps);
  store.put_advantages(all, value_BT, advantage_BT);
  StateArchive archive;
  store.visit_state(archive, &ragged_env);
  SafetensorsFile file;
  for (const auto& [name, tensor] : archive.saved_tensors()) file.tensors[name] = tensor.clone();
  file.metadata = archive.saved_metadata();
  StateArchive saved(file, "the state");
  restored.visit_state(saved, &ragged_env);
  saved.check_all_restored();
  CHECK(difference(restored.gather(all), store.gather(all), task.num_actions()) == "");

  for (const std::string name : {"log_prob", "value", "advantage"}) {
    CAPTURE(name);
    SafetensorsFile damaged = file;
    damaged.tensors[name] = damaged.tensors.at(name).narrow(0, 0, 2).clone();
    StateArchive refused(damaged, "the state");
    EpisodeStore other = EpisodeStore::of_iterations(task, 1000, torch::kCPU);
    CHECK_THROWS_AS(other.visit_state(refused, &ragged_env), UserError);
  }
}

TEST_CASE("an episode's return is the sum of its rewards") {
  CHECK(numbered_episode(1, 2, End::kTerminated).total_reward() == doctest::Approx(2.3));
}
