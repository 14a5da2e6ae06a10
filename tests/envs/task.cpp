// A million random steps of every task, in every form of it, held against the invariants of the rules.
#include "envs/task.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>
#include <type_traits>

#include "envs/all_tasks.h"
#include "envs/registry.h"
#include "tests/envs/plain_observation.h"

using namespace engram;

namespace {

constexpr int kSteps = 1'000'000;

// Calls check(params, before, after, action, outcome, steps so far in the episode) after each of kSteps random steps.
template <class Task, class Check>
void play_randomly(const typename Task::Options& options, int steps, Check check) {
  const typename Task::Params params = Task::make_params(options, 1, Purpose::kTraining);
  const int length = Task::max_episode_steps(params);
  Rng actions(7, Purpose::kAction, 0, 0);
  typename Task::State state{};
  Rng rng;
  std::uint32_t episode = 0;
  int steps_in_episode = 0;
  for (int t = 0; t < steps; ++t) {
    if (steps_in_episode == 0) {
      rng = Rng(1, Purpose::kTraining, 0, episode++);
      state = Task::reset(params, rng);
    }
    const typename Task::State before = state;
    const int action = static_cast<int>(actions.below(Task::kNumActions));
    const Outcome outcome = Task::step(params, state, action, rng);
    ++steps_in_episode;
    REQUIRE((outcome.end != End::kNone) == (steps_in_episode == length));  // all of them have a fixed length
    check(params, before, state, action, outcome, steps_in_episode);
    if (outcome.end != End::kNone) steps_in_episode = 0;
  }
}

// What holds on a board whatever the task.
template <class Task>
void check_board(const typename Task::Params& params, const typename Task::State& before,
                 const typename Task::State& after, int t) {
  const board::Map& map = params.board.map[after.board.phase];
  REQUIRE(board::is_open(map, after.board.player.row, after.board.player.column));
  if (before.board.phase == after.board.phase) {
    const int distance = std::abs(before.board.player.row - after.board.player.row) +
                         std::abs(before.board.player.column - after.board.player.column);
    REQUIRE(distance <= 1);
  }
  if (t % 7 != 0) return;  // every seventh step is enough for the dear part
  const auto observation = fast_observation<Task>(params, after);
  REQUIRE(observation == plain_observation<Task>(params, after));
  REQUIRE(observation == fast_observation<Task>(params, after));  // observing changes nothing
  const Rgb player = params.board.palette.player;
  int players = 0;
  for (int i = 0; i < 25; ++i)
    players +=
        observation[i] == player.red && observation[25 + i] == player.green && observation[50 + i] == player.blue;
  Canvas canvas;
  Task::draw(params, after, canvas);
  int drawn = 0;
  for (int row = 0; row < canvas.rows(); ++row)
    for (int column = 0; column < canvas.columns(); ++column) drawn += canvas.at(row, column) == player;
  REQUIRE(drawn == players);
  if constexpr (std::is_same_v<Task, KeyToDoor>) {
    const bool in_door = after.board.phase == board::kReward && board::same(after.board.player, after.door);
    REQUIRE(players == (in_door ? 0 : 1));  // the door is drawn over the player
  } else {
    REQUIRE(players == 1);
  }
}

int count_bits(std::uint64_t bits) { return std::popcount(bits); }

// One step towards the nearest apple, or `otherwise` if there is none.
int greedy_action(const board::State& state, int otherwise) {
  int nearest = 1000;
  int action = otherwise;
  for (int row = 0; row < board::kRows; ++row)
    for (int column = 0; column < board::kColumns; ++column) {
      if (!board::has_apple(state, row, column)) continue;
      const int down = row - state.player.row;
      const int right = column - state.player.column;
      const int distance = std::abs(down) + std::abs(right);
      if (distance >= nearest) continue;
      nearest = distance;
      action = down < 0 ? 0 : down > 0 ? 1 : right < 0 ? 2 : right > 0 ? 3 : otherwise;
    }
  return action;
}

}  // namespace

TEST_CASE("visual match") {
  for (const bool active : {false, true}) {
    VisualMatch::Options options;
    options.active = active;
    options.distractor_steps = active ? 20 : 150;
    float reward_phase_sum = 0;
    play_randomly<VisualMatch>(
        options, kSteps / 2,
        [&](const auto& params, const auto& before, const auto& after, int, Outcome outcome, int t) {
          check_board<VisualMatch>(params, before, after, t);
          if (t == 1) reward_phase_sum = 0;
          switch (before.board.phase) {
            case board::kExplore:
              REQUIRE(outcome.reward == 0);
              REQUIRE_FALSE(board::same(after.board.player, after.signal));
              break;
            case board::kDistractor:
              REQUIRE((outcome.reward == 0 || outcome.reward == 1));
              REQUIRE(count_bits(after.board.apples) <= options.num_apples);
              REQUIRE(count_bits(after.board.apples) + after.board.taken_count == options.num_apples);
              break;
            default:
              REQUIRE((outcome.reward == 0 || outcome.reward == 10));
              reward_phase_sum += outcome.reward;
              REQUIRE(reward_phase_sum <= 10);
              REQUIRE(VisualMatch::success(params, after) == (reward_phase_sum > 0));
          }
        });
  }
}

TEST_CASE("key-to-door") {
  for (const DoorVariant variant : {DoorVariant::kSr, DoorVariant::kCca}) {
    KeyToDoor::Options options;
    options.variant = variant;
    float reward_phase_sum = 0;
    int successes = 0;
    play_randomly<KeyToDoor>(
        options, kSteps / 2,
        [&](const auto& params, const auto& before, const auto& after, int, Outcome outcome, int t) {
          check_board<KeyToDoor>(params, before, after, t);
          if (t == 1) reward_phase_sum = 0;
          switch (before.board.phase) {
            case board::kExplore:
              REQUIRE(outcome.reward == 0);
              break;
            case board::kDistractor:
              REQUIRE((outcome.reward == 0 || outcome.reward == 1));
              REQUIRE(count_bits(after.board.apples) + after.board.taken_count == options.num_apples);
              break;
            default:
              REQUIRE((outcome.reward == 0 || outcome.reward == 5));
              reward_phase_sum += outcome.reward;
              REQUIRE(reward_phase_sum <= 5);
              REQUIRE(KeyToDoor::success(params, after) == (reward_phase_sum > 0));
              if (!after.key_taken) REQUIRE_FALSE(board::same(after.board.player, after.door));
          }
          if (outcome.end != End::kNone) successes += KeyToDoor::success(params, after);
        });
    CHECK(successes > 0);  // so that the checks above have seen both
  }
}

TEST_CASE("T-maze") {
  for (const bool active : {false, true})
    for (const int corridor_length : {1, 12}) {
      TMaze::Options options;
      options.active = active;
      options.corridor_length = corridor_length;
      play_randomly<TMaze>(
          options, kSteps / 4,
          [&](const auto& params, const auto& before, const auto& after, int, Outcome outcome, int) {
            const int end = params.oracle + params.corridor_length;
            REQUIRE(std::abs(after.x - before.x) + std::abs(after.y - before.y) <= 1);
            REQUIRE((after.x >= 0 && after.x <= end && std::abs(after.y) <= (after.x == end ? 1 : 0)));
            REQUIRE(after.goal_y == before.goal_y);
            if (outcome.end == End::kNone)
              REQUIRE((outcome.reward == 0 || outcome.reward == params.step_penalty));
            else
              REQUIRE((outcome.reward == 0 || outcome.reward == 1));
            REQUIRE(TMaze::success(params, after) == (outcome.end != End::kNone && outcome.reward > 0));
            if (active) return;
            Canvas canvas;
            TMaze::draw(params, after, canvas);
            int players = 0;
            for (int row = 0; row < canvas.rows(); ++row)
              for (int column = 0; column < canvas.columns(); ++column)
                players += canvas.at(row, column) == Rgb{228, 148, 109};
            REQUIRE(players == 1);
          });
    }
}

TEST_CASE("a random player and a greedy one take about as many apples as in the reference implementation") {
  // There a uniformly random player takes about 61 in 750 steps, a greedy one (the shortest way to the nearest apple,
  // 5% random moves) about 255. The bound of 10% is for 'about'; the error of our own means is below 1%.
  VisualMatch::Options options;
  options.distractor_steps = 750;
  const VisualMatch::Params params = VisualMatch::make_params(options, 1, Purpose::kTraining);
  const auto mean_apples = [&](double random_moves, int episodes) {
    double apples = 0;
    Rng choice(9, Purpose::kAction, 0, 0);
    for (int episode = 0; episode < episodes; ++episode) {
      Rng rng(1, Purpose::kTraining, 0, static_cast<std::uint32_t>(episode));
      VisualMatch::State state = VisualMatch::reset(params, rng);
      for (End end = End::kNone; end == End::kNone;) {
        const bool among_apples = state.board.phase == board::kDistractor;
        int action = static_cast<int>(choice.below(4));
        if (among_apples && choice.uniform() >= random_moves) action = greedy_action(state.board, action);
        const Outcome outcome = VisualMatch::step(params, state, action, rng);
        if (among_apples) apples += outcome.reward;
        end = outcome.end;
      }
    }
    return apples / episodes;
  };
  CHECK(mean_apples(1, 600) == doctest::Approx(61).epsilon(0.1));
  CHECK(mean_apples(0.05, 100) == doctest::Approx(255).epsilon(0.1));
}
