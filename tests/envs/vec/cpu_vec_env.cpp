#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/vec/vec_env.h"

using namespace engram;

namespace {

std::vector<TaskConfig> all_tasks() {
  std::vector<TaskConfig> tasks;
  for (const std::string& name : task_names()) tasks.emplace_back(name);
  OptionList options = tasks[0].options();
  options.set("task.distractor_steps", "30");
  TaskConfig reference("visual_match");
  options = reference.options();
  options.set("task.colours", "reference");
  options.set("task.active", "true");
  tasks.push_back(reference);
  return tasks;
}

std::vector<std::int32_t> random_actions(Rng& rng, const VecEnv& env) {
  const ActionSpec& spec = env.info().action;
  std::vector<std::int32_t> actions(env.size() * spec.words());
  for (std::size_t at = 0; at < actions.size(); at += spec.words()) draw_action(spec, rng, actions.data() + at);
  return actions;
}

// Everything that can be seen of an env, as bytes.
void append_views(const VecEnv& env, std::vector<std::byte>& bytes) {
  const auto append = [&](std::span<const std::byte> view) { bytes.insert(bytes.end(), view.begin(), view.end()); };
  append(env.observation_N());
  append(std::as_bytes(env.reward_N()));
  append(std::as_bytes(env.end_N()));
  append(std::as_bytes(env.success_N()));
}

std::vector<std::byte> views_of(const VecEnv& env) {
  std::vector<std::byte> bytes;
  append_views(env, bytes);
  return bytes;
}

std::vector<std::byte> play(VecEnv& env, int steps, std::uint32_t action_stream = 0) {
  std::vector<std::byte> bytes;
  Rng rng(11, Purpose::kAction, action_stream, 0);
  append_views(env, bytes);
  for (int t = 0; t < steps; ++t) {
    env.reset_finished();
    env.step(random_actions(rng, env));
    append_views(env, bytes);
  }
  return bytes;
}

}  // namespace

TEST_CASE("the same seed gives the same bytes for any number of threads") {
  for (const TaskConfig& task : all_tasks()) {
    const auto expected = play(*make_cpu_vec_env(task, 3, Purpose::kTraining, 13, 1), 400);
    for (const int threads : {2, 3, 8, 13, 40})
      CHECK(play(*make_cpu_vec_env(task, 3, Purpose::kTraining, 13, threads), 400) == expected);
  }
}

TEST_CASE("an environment's bytes do not depend on how many others there are") {
  for (const TaskConfig& task : all_tasks()) {
    const auto few = make_cpu_vec_env(task, 3, Purpose::kTraining, 2, 1);
    const auto many = make_cpu_vec_env(task, 3, Purpose::kTraining, 9, 2);
    const std::size_t bytes = 2 * static_cast<std::size_t>(few->info().observation.bytes());
    Rng rng(1, Purpose::kAction, 0, 0);
    for (int t = 0; t < 300; ++t) {
      const auto actions = random_actions(rng, *many);
      few->reset_finished();
      many->reset_finished();
      few->step({actions.data(), 2});
      many->step(actions);
      REQUIRE(std::ranges::equal(few->observation_N(), many->observation_N().first(bytes)));
    }
  }
}

TEST_CASE("environments from one on draw what they draw among all") {
  for (const TaskConfig& task : all_tasks()) {
    const auto all = make_cpu_vec_env(task, 3, Purpose::kTraining, 9, 1);
    const auto block = make_cpu_vec_env(task, 3, Purpose::kTraining, 4, 1, 5);
    const auto bytes = static_cast<std::size_t>(all->info().observation.bytes());
    Rng rng(1, Purpose::kAction, 0, 0);
    for (int t = 0; t < 300; ++t) {
      const auto actions = random_actions(rng, *all);
      all->reset_finished();
      block->reset_finished();
      all->step(actions);
      block->step({actions.data() + 5, 4});
      REQUIRE(std::ranges::equal(block->observation_N(), all->observation_N().last(4 * bytes)));
    }
  }
}

TEST_CASE("other seeds, purposes, environments and episodes give other bytes") {
  for (const TaskConfig& task : all_tasks()) {
    const auto bytes = [&](std::uint64_t seed, Purpose purpose, std::uint32_t first_episode) {
      const auto env = make_cpu_vec_env(task, seed, purpose, 16, 1);
      env->reset_all(first_episode);
      return play(*env, 100);
    };
    const auto base = bytes(3, Purpose::kTraining, 0);
    CHECK(base == bytes(3, Purpose::kTraining, 0));
    CHECK(base != bytes(4, Purpose::kTraining, 0));
    CHECK(base != bytes(3, Purpose::kEvaluation, 0));
    CHECK(base != bytes(3, Purpose::kTraining, 1));
  }
  // Of one object, too: sixteen rooms, and hardly two with the same apples.
  TaskConfig task("visual_match");
  OptionList options = task.options();
  options.set("task.explore_steps", "1");
  const auto env = make_cpu_vec_env(task, 1, Purpose::kTraining, 16, 1);
  env->step(std::vector<std::int32_t>(16, 0));
  std::set<std::string> rooms;
  for (int i = 0; i < 16; ++i) rooms.emplace(reinterpret_cast<const char*>(env->observation_N().data()) + i * 75, 75);
  CHECK(rooms.size() >= 8);
}

TEST_CASE("reset_all starts the episode that it is told, as playing up to it does") {
  const TaskConfig task("tmaze");
  const auto played = make_cpu_vec_env(task, 5, Purpose::kTraining, 32, 2);
  const auto jumped = make_cpu_vec_env(task, 5, Purpose::kTraining, 32, 2);
  for (int t = 0; t < 3 * 51; ++t) {
    played->reset_finished();
    played->step(std::vector<std::int32_t>(32, 0));
  }
  played->reset_finished();
  jumped->reset_all(3);
  CHECK(play(*played, 200) == play(*jumped, 200));
}

TEST_CASE("environments that move to other streams are those that are made there") {
  for (const TaskConfig& task : all_tasks()) {
    const auto moved = make_cpu_vec_env(task, 3, Purpose::kTraining, 6, 2, 4);
    play(*moved, 30);
    moved->move_streams(90);
    CHECK(play(*moved, 200) == play(*make_cpu_vec_env(task, 3, Purpose::kTraining, 6, 1, 90), 200));
  }
}

TEST_CASE("the chosen environments begin their next episodes, and the others stay as they are") {
  for (const TaskConfig& task : all_tasks()) {
    const auto env = make_cpu_vec_env(task, 3, Purpose::kTraining, 4, 2);
    const auto expected = make_cpu_vec_env(task, 3, Purpose::kTraining, 4, 1);
    env->step(std::vector<std::int32_t>(4, 0));
    expected->step(std::vector<std::int32_t>(4, 0));
    env->reset_chosen(std::vector<std::uint8_t>{0, 1, 0, 255});
    expected->reset_row(1, 1);
    expected->reset_row(3, 1);
    CHECK(play(*env, 100) == play(*expected, 100));
    CHECK_THROWS_WITH_AS(env->reset_chosen(std::vector<std::uint8_t>{1}), "1 choices for 4 environments",
                         std::invalid_argument);
  }
}

TEST_CASE("a step or reset is a step of those under way, and the beginning of an episode of those that have ended") {
  for (const TaskConfig& task : all_tasks()) {
    constexpr int kEnvs = 5;
    const auto env = make_cpu_vec_env(task, 3, Purpose::kTraining, kEnvs, 2);
    const auto expected = make_cpu_vec_env(task, 3, Purpose::kTraining, kEnvs, 1);
    std::vector<std::uint32_t> episode(kEnvs);
    Rng rng(1, Purpose::kAction, 0, 0);
    for (int t = 0; t < 2 * env->info().max_episode_steps + 2; ++t) {
      const auto actions = random_actions(rng, *env);
      env->step_or_reset(actions);
      for (int row = 0; row < kEnvs; ++row)
        if (expected->end_N()[row] == End::kNone)
          expected->step_row(row, actions[row]);
        else
          expected->reset_row(row, ++episode[row]);
      REQUIRE(views_of(*env) == views_of(*expected));
    }
    CHECK(std::ranges::all_of(episode, [](std::uint32_t number) { return number > 0; }));
    CHECK_THROWS_AS(env->step_or_reset(std::vector<std::int32_t>(kEnvs, -1)), std::invalid_argument);
  }
}

TEST_CASE("an environment is reset and stepped alone, and the others stay as they are") {
  for (const TaskConfig& task : all_tasks()) {
    constexpr int kEnvs = 4, kRow = 2, kEpisode = 5, kSteps = 30;
    const auto env = make_cpu_vec_env(task, 3, Purpose::kTraining, kEnvs, 2);
    const auto later = make_cpu_vec_env(task, 3, Purpose::kTraining, kEnvs, 1);  // all in that episode
    const auto still = make_cpu_vec_env(task, 3, Purpose::kTraining, kEnvs, 1);
    play(*env, kSteps);
    play(*still, kSteps);
    const auto row_is_of = [&](int row, const VecEnv& other) {
      const auto bytes = static_cast<std::size_t>(env->info().observation.bytes());
      const auto first = static_cast<std::size_t>(row) * bytes;
      return std::ranges::equal(env->observation_N().subspan(first, bytes),
                                other.observation_N().subspan(first, bytes)) &&
             env->reward_N()[row] == other.reward_N()[row] && env->end_N()[row] == other.end_N()[row] &&
             env->success_N()[row] == other.success_N()[row];
    };
    env->reset_row(kRow, kEpisode);
    later->reset_all(kEpisode);
    Rng rng(1, Purpose::kAction, 0, 0);
    for (int t = 0; t <= env->info().max_episode_steps; ++t) {
      for (int row = 0; row < kEnvs; ++row) REQUIRE(row_is_of(row, row == kRow ? *later : *still));
      if (env->end_N()[kRow] != End::kNone) break;
      const auto actions = random_actions(rng, *env);
      env->step_row(kRow, actions[kRow]);
      for (int row = 0; row < kEnvs; ++row)
        if (row != kRow && later->end_N()[row] != End::kNone) later->reset_row(row, 0);
      later->step(actions);
    }
    CHECK_THROWS_WITH_AS(env->step_row(kRow, 0),
                         "the episode of environment 2 has ended; reset it before the next step",
                         std::invalid_argument);
    CHECK_THROWS_AS(env->step_row(0, -1), std::invalid_argument);
    CHECK_THROWS_AS(env->step_row(kEnvs, 0), std::invalid_argument);
    CHECK_THROWS_AS(env->reset_row(-1, 0), std::invalid_argument);
    CHECK(row_is_of(0, *still));
    // It goes on to its own next episode, as do those whose episode had ended before.
    env->reset_finished();
    still->reset_finished();
    later->reset_all(kEpisode + 1);
    CHECK(row_is_of(kRow, *later));
    CHECK(row_is_of(0, *still));
  }
}

TEST_CASE("looking changes nothing") {
  for (const TaskConfig& task : all_tasks()) {
    const auto env = make_cpu_vec_env(task, 3, Purpose::kTraining, 5, 1);
    const auto looked_at = make_cpu_vec_env(task, 3, Purpose::kTraining, 5, 1);
    Rng rng(1, Purpose::kAction, 0, 0);
    for (int t = 0; t < 200; ++t) {
      Canvas canvas;
      for (int i = 0; i < 5; ++i) {
        looked_at->draw(i, canvas);
        looked_at->phase(i);
      }
      looked_at->observation_N();
      env->reset_finished();
      looked_at->reset_finished();
      const auto actions = random_actions(rng, *env);
      env->step(actions);
      looked_at->step(actions);
      REQUIRE(std::ranges::equal(env->observation_N(), looked_at->observation_N()));
    }
  }
}

TEST_CASE("the last observation stays until the reset, and a step before it is refused") {
  const TaskConfig task("tmaze");
  const auto env = make_cpu_vec_env(task, 1, Purpose::kTraining, 3, 2);
  const auto observation = [&] {
    const auto* const floats = reinterpret_cast<const float*>(env->observation_N().data());
    return std::vector<float>(floats, floats + 6);
  };
  const std::vector<std::int32_t> ahead(3, 0);
  for (int t = 0; t < 50; ++t) env->step(ahead);
  CHECK(observation() == std::vector<float>{1, 0, 1, 0, 1, 0});
  env->step(std::vector<std::int32_t>{1, 3, 0});
  const std::vector<float> last = {1, 1, 1, -1, 1, 0};
  CHECK(observation() == last);
  CHECK(std::ranges::equal(env->end_N(), std::vector<End>(3, End::kTerminated)));
  CHECK(env->success_N()[0] + env->success_N()[1] == (env->reward_N()[0] + env->reward_N()[1]));
  CHECK(env->success_N()[2] == 0);

  const auto before = views_of(*env);
  CHECK_THROWS_WITH_AS(env->step(ahead), "the episode of environment 0 has ended; reset it before the next step",
                       std::invalid_argument);
  CHECK(views_of(*env) == before);
  CHECK(observation() == last);

  env->reset_finished();
  CHECK(std::ranges::equal(env->end_N(), std::vector<End>(3, End::kNone)));
  CHECK(std::ranges::equal(env->reward_N(), std::vector<float>(3, 0)));
  CHECK(std::ranges::equal(env->success_N(), std::vector<std::uint8_t>(3, 0)));
  CHECK(observation() != last);
  env->step(ahead);
}

TEST_CASE("the reward phase's last observation is its own, not a new episode's") {
  TaskConfig task("visual_match");
  OptionList options = task.options();
  options.set("task.distractor_steps", "2");
  const auto env = make_cpu_vec_env(task, 1, Purpose::kTraining, 1, 1);
  for (int t = 0; t < 17; ++t) env->step(std::vector<std::int32_t>{1});
  for (int t = 0; t < 4; ++t) env->step(std::vector<std::int32_t>{0});   // to the middle square
  for (int t = 0; t < 11; ++t) env->step(std::vector<std::int32_t>{1});  // and back to the start of the phase
  CHECK(env->end_N()[0] == End::kTerminated);
  CHECK(env->phase(0) == "reward");
  const auto* const image = reinterpret_cast<const std::uint8_t*>(env->observation_N().data());
  // Rows 3 to 7, columns 3 to 7 of the reward map in red: open above, the niche with its player, walls, outside.
  const std::vector<int> expected = {204, 204, 204, 204, 204, 25, 204, 204, 204, 25,  25,  204, 228,
                                     204, 25,  25,  25,  25,  25, 25,  204, 204, 204, 204, 204};
  CHECK(std::vector<int>(image, image + 25) == expected);
}

TEST_CASE("bad actions and sizes are refused and change nothing") {
  for (const TaskConfig& task : all_tasks()) {
    const auto env = make_cpu_vec_env(task, 1, Purpose::kTraining, 3, 1);
    const auto before = views_of(*env);
    if (env->info().action.continuous()) {
      const std::int32_t bad = word_of(std::numeric_limits<float>::infinity());
      CHECK_THROWS_WITH_AS(env->step(std::vector<std::int32_t>{0, bad, 0}),
                           "the action of environment 1 has a number that is not finite", std::invalid_argument);
      CHECK(views_of(*env) == before);
      continue;
    }
    const int actions = env->info().num_actions();
    const std::string message =
        "action " + std::to_string(actions) + " of environment 1 is not one of 0.." + std::to_string(actions - 1);
    CHECK_THROWS_WITH_AS(env->step(std::vector<std::int32_t>{0, actions, 0}), message.c_str(), std::invalid_argument);
    CHECK_THROWS_AS(env->step(std::vector<std::int32_t>{0, 0, -1}), std::invalid_argument);
    CHECK_THROWS_WITH_AS(env->step(std::vector<std::int32_t>{0, 0}), "2 actions for 3 environments",
                         std::invalid_argument);
    CHECK(views_of(*env) == before);
    CHECK_THROWS_AS(make_cpu_vec_env(task, 1, Purpose::kTraining, 0, 1), std::invalid_argument);
    CHECK_THROWS_AS(make_cpu_vec_env(task, 1, Purpose::kTraining, 1, 0), std::invalid_argument);
  }
}

TEST_CASE("info says what the views hold") {
  for (const TaskConfig& task : all_tasks()) {
    const auto env = make_cpu_vec_env(task, 1, Purpose::kTraining, 3, 1);
    CHECK(env->info().name == task.name());
    CHECK(env->size() == 3);
    CHECK(env->observation_N().size() == static_cast<std::size_t>(3 * env->info().observation.bytes()));
    int steps = 0;
    while (env->end_N()[0] == End::kNone) {
      env->step_row(0, env->info().action.continuous() ? 0 : env->info().num_actions() - 1);
      ++steps;
    }
    if (task.name() == "cartpole" || task.name() == "mortar_mayhem")
      CHECK(steps < env->info().max_episode_steps);  // pushed one way, the pole falls before; walking on is fatal
    else
      CHECK(steps == env->info().max_episode_steps);
  }
}

TEST_CASE("few environments are left to one thread, many use all") {
  CHECK(worthwhile_threads(1, 16) == 1);
  CHECK(worthwhile_threads(511, 16) == 1);
  CHECK(worthwhile_threads(1024, 16) == 4);
  CHECK(worthwhile_threads(1'000'000, 16) == 16);
}
