#include "envs/tasks/memory_rl/key_to_door.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>

#include "base/error.h"

using namespace engram;

namespace {

KeyToDoor::Params make_params(DoorVariant variant) {
  KeyToDoor::Options options;
  options.variant = variant;
  return KeyToDoor::make_params(options, 1, Purpose::kTest);
}

KeyToDoor::State fresh(const KeyToDoor::Params& params, std::uint32_t episode) {
  Rng rng(1, Purpose::kTest, 0, episode);
  return KeyToDoor::reset(params, rng);
}

Outcome step(const KeyToDoor::Params& params, KeyToDoor::State& state, char letter) {
  Rng unused;
  return KeyToDoor::step(params, state, static_cast<int>(std::string("NSWE").find(letter)), unused);
}

Rgb colour_at(const KeyToDoor::Params& params, const KeyToDoor::State& state, int row, int column) {
  Canvas canvas;
  KeyToDoor::draw(params, state, canvas);
  return canvas.at(row, column);
}

}  // namespace

TEST_CASE("taking the key hides it and lights the indicator for one frame") {
  const KeyToDoor::Params params = make_params(DoorVariant::kSr);
  KeyToDoor::State state = fresh(params, 0);
  state.board.player = {1, 4};
  state.key = {1, 5};
  const board::Palette& palette = params.board.palette;
  CHECK(colour_at(params, state, 1, 5) == palette.key);
  CHECK(step(params, state, 'E').reward == 0);
  CHECK(state.has_key);
  CHECK(colour_at(params, state, 1, 5) == palette.player);
  CHECK(colour_at(params, state, 0, 5) == palette.indicator);
  step(params, state, 'N');  // into the indicator, which is in the wall
  CHECK(board::same(state.board.player, {1, 5}));
  CHECK(state.has_key);
  CHECK(colour_at(params, state, 0, 5) == palette.wall);
  step(params, state, 'W');
  step(params, state, 'E');  // the key's place again: nothing more to take
  CHECK(colour_at(params, state, 0, 5) == palette.wall);
  CHECK_FALSE(state.indicator);
}

TEST_CASE("the door opens only with the key, pays once and stays open") {
  const KeyToDoor::Params params = make_params(DoorVariant::kSr);
  for (const bool has_key : {false, true}) {
    KeyToDoor::State state = fresh(params, 0);
    state.has_key = has_key;
    state.board.phase = board::kReward;
    state.board.player = {2, 5};
    CHECK(board::same(state.door, {1, 5}));
    CHECK(step(params, state, 'N').reward == (has_key ? 5 : 0));
    CHECK(KeyToDoor::success(params, state) == has_key);
    CHECK(board::same(state.board.player, has_key ? board::Cell{1, 5} : board::Cell{2, 5}));
    CHECK(colour_at(params, state, 1, 5) == params.board.palette.door);  // also over the player
    if (!has_key) continue;
    CHECK(step(params, state, 'S').reward == 0);
    CHECK(step(params, state, 'N').reward == 0);
    CHECK(board::same(state.board.player, {1, 5}));
    CHECK(KeyToDoor::success(params, state));
    CHECK(step(params, state, 'N').reward == 0);  // out at the top: (0, 5) is floor
    CHECK(board::same(state.board.player, {0, 5}));
  }
}

TEST_CASE("key, door and starts are drawn from the cells of each variant") {
  for (const DoorVariant variant : {DoorVariant::kSr, DoorVariant::kCca}) {
    const KeyToDoor::Params params = make_params(variant);
    std::set<int> keys, players, doors, reward_starts;
    const auto number = [](board::Cell cell) { return cell.row * 100 + cell.column; };
    for (std::uint32_t episode = 0; episode < 1000; ++episode) {
      const KeyToDoor::State state = fresh(params, episode);
      keys.insert(number(state.key));
      players.insert(number(state.board.player));
      doors.insert(number(state.door));
      reward_starts.insert(number(state.reward_start));
    }
    const std::set<int> upper = {103, 104, 105, 106, 107, 203, 204, 205, 206, 207};
    const std::set<int> lower = {403, 404, 405, 406, 407, 503, 504, 505, 506, 507};
    CHECK(keys == upper);
    CHECK(players == lower);
    CHECK(doors == (variant == DoorVariant::kSr ? std::set<int>{105} : lower));
    CHECK(reward_starts == (variant == DoorVariant::kSr ? std::set<int>{305} : upper));
  }
}

TEST_CASE("the default episode is 15 + 60 + 10 steps and the key survives the apples") {
  const KeyToDoor::Params params = make_params(DoorVariant::kSr);
  CHECK(KeyToDoor::max_episode_steps(params) == 85);
  KeyToDoor::State state = fresh(params, 0);
  state.board.player = {2, 5};
  state.key = {1, 5};
  float reward = 0;
  End end = End::kNone;
  int steps = 0;
  while (end == End::kNone) {
    const Outcome outcome = step(params, state, 'N');
    ++steps;
    end = outcome.end;
    if (steps > 75) reward += outcome.reward;
  }
  CHECK(steps == 85);
  CHECK(end == End::kTerminated);
  CHECK(reward == 5);
  CHECK(KeyToDoor::success(params, state));
}

TEST_CASE("a level that breaks the form is refused with what is wrong") {
  KeyToDoor::Params params = make_params(DoorVariant::kSr);
  board::Level level;
  for (board::Text& map : level.maps) map.fill("           ");
  level.maps[board::kExplore][1] = "  + k      ";
  level.maps[board::kDistractor][1] = "  + a      ";
  level.maps[board::kReward][1] = "  + d      ";
  CHECK(board::same(KeyToDoor::set_level(params, level).key, {1, 4}));
  level.maps[board::kReward][1] = "  +        ";
  CHECK_THROWS_WITH_AS(KeyToDoor::set_level(params, level), "the reward map holds 0 times 'd'; it takes exactly one",
                       UserError);
  level.maps[board::kReward][1] = "  + b      ";
  CHECK_THROWS_WITH_AS(KeyToDoor::set_level(params, level), "the reward map holds 'b'; it takes '# +d'", UserError);
}
