#include "envs/tasks/memory_rl/board.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "envs/tasks/memory_rl/visual_match.h"
#include "tests/envs/plain_observation.h"

using namespace engram;
using namespace engram::board;

namespace {

VisualMatch::Params visual_match(VisualMatch::Options options = {}) {
  return VisualMatch::make_params(options, 1, Purpose::kTest);
}

// In the distractor phase, with nothing but one apple at `cell`.
VisualMatch::State with_apple(const VisualMatch::Params& params, Cell player, Cell apple) {
  Rng rng(1, Purpose::kTest, 0, 0);
  VisualMatch::State state = VisualMatch::reset(params, rng);
  state.board.phase = kDistractor;
  state.board.player = player;
  state.board.apples = std::uint64_t{1} << apple_bit(apple.row, apple.column);
  return state;
}

// Apples on about half of all floor cells that can have one.
std::uint64_t apples_on_floor(const Params& params, Rng& rng) {
  std::uint64_t apples = 0;
  for (int row = 1; row <= 5; ++row)
    for (int column = 0; column < kColumns; ++column)
      if (is_open(params.map[kDistractor], row, column) && rng.below(2) == 1)
        apples |= std::uint64_t{1} << apple_bit(row, column);
  return apples;
}

Level open_level() {
  Level level;
  const std::string floor = "           ";
  for (Text& map : level.maps) map.fill(floor);
  level.maps[kExplore][2] = "    b+     ";
  level.maps[kDistractor][3] = " a   +   a ";
  level.maps[kReward][3] = "b  c +    e";
  return level;
}

}  // namespace

TEST_CASE("a step leads north, south, west and east, and never through a wall or off the board") {
  for (const auto& [action, row, column] : {std::tuple{0, 2, 4}, {1, 4, 4}, {2, 3, 3}, {3, 3, 5}}) {
    const Target target = target_of({3, 4}, action);
    CHECK(target.row == row);
    CHECK(target.column == column);
  }
  VisualMatch::Params params = visual_match();
  VisualMatch::set_level(params, open_level(), 'b');  // no walls: only the board's edge stops the player
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column) {
      const bool signal = row == 2 && column == 4;
      CHECK(is_open(params.board.map[kExplore], row, column) == !signal);
    }
  for (int row = -1; row <= kRows; ++row) {
    CHECK_FALSE(is_open(params.board.map[kDistractor], row, -1));
    CHECK_FALSE(is_open(params.board.map[kDistractor], row, kColumns));
  }
  for (int column = -1; column <= kColumns; ++column) {
    CHECK_FALSE(is_open(params.board.map[kDistractor], -1, column));
    CHECK_FALSE(is_open(params.board.map[kDistractor], kRows, column));
  }
}

TEST_CASE("the crop shows the board at every place of the player, with every apple") {
  VisualMatch::Params params = visual_match();
  Rng rng(5, Purpose::kTest, 0, 0);
  for (const bool walled : {true, false}) {
    VisualMatch::State state = VisualMatch::reset(params, rng);
    if (!walled) state = VisualMatch::set_level(params, open_level(), 'b');
    for (int phase = 0; phase < kPhases; ++phase)
      for (int row = 0; row < kRows; ++row)
        for (int column = 0; column < kColumns; ++column)
          for (int repeat = 0; repeat < 8; ++repeat) {
            state.board.phase = static_cast<std::uint8_t>(phase);
            state.board.player = {static_cast<std::uint8_t>(row), static_cast<std::uint8_t>(column)};
            state.board.apples = apples_on_floor(params.board, rng);
            if (has_apple(state.board, row, column)) state.board.apples ^= std::uint64_t{1} << apple_bit(row, column);
            INFO("phase " << phase << ", row " << row << ", column " << column);
            REQUIRE(fast_observation<VisualMatch>(params, state) == plain_observation<VisualMatch>(params, state));
          }
  }
}

TEST_CASE("apples are drawn evenly and are as many as asked for") {
  VisualMatch::Options options;
  for (const int num_apples : {0, 1, 10, 22}) {
    options.num_apples = num_apples;
    const VisualMatch::Params params = visual_match(options);
    CHECK(params.board.apple_cells.count == 22);
    constexpr int kEpisodes = 4000;
    std::map<unsigned, int> count;
    for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
      Rng rng(1, Purpose::kTest, 0, episode);
      const std::uint64_t apples = draw_apples(params.board, rng);
      int total = 0;
      for (unsigned bit = 0; bit < kAppleBits; ++bit)
        if ((apples >> bit) & 1) ++total, ++count[bit];
      REQUIRE(total == num_apples);
    }
    // Five standard deviations of a binomial count.
    const double p = num_apples / 22.0;
    for (const auto& [bit, times] : count)
      CHECK(std::abs(times - kEpisodes * p) <= 5 * std::sqrt(kEpisodes * p * (1 - p)));
    CHECK(count.size() == (num_apples == 0 ? 0 : 22));
  }
}

TEST_CASE("an apple comes back respawn_every + 1 frames after it was taken, under the player as well") {
  Rng unused;
  for (const int respawn_every : {0, 1, 2, 20}) {
    VisualMatch::Options options;
    options.respawn_every = respawn_every;
    const VisualMatch::Params params = visual_match(options);
    VisualMatch::State state = with_apple(params, {3, 4}, {3, 5});
    CHECK(VisualMatch::step(params, state, 3, unused).reward == 1);
    CHECK(state.board.apples == 0);
    // The wall above the top row is bumped into from (1, 5): the player stays on one cell.
    const Cell here = state.board.player;
    for (int frame = 2; frame < 50; ++frame) {
      state.board.player = here;
      state.board.player.row = 1;
      const Outcome outcome = VisualMatch::step(params, state, 0, unused);
      CHECK(outcome.reward == 0);
      const bool back = respawn_every > 0 && frame > 1 + respawn_every;
      CHECK(has_apple(state.board, 3, 5) == back);
    }
  }
  // It comes back under the player, who gets it with the next step there.
  VisualMatch::Options options;
  options.respawn_every = 2;
  const VisualMatch::Params params = visual_match(options);
  VisualMatch::State state = with_apple(params, {2, 1}, {1, 1});
  std::vector<float> rewards;
  for (int t = 0; t < 8; ++t) rewards.push_back(VisualMatch::step(params, state, 0, unused).reward);
  CHECK(rewards == std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0});
}

TEST_CASE("many apples can be gone at once and come back in their order") {
  VisualMatch::Options options;
  options.num_apples = kMaxApples;
  options.respawn_every = 100;
  options.distractor_steps = 100000;
  const VisualMatch::Params params = visual_match(options);
  Rng rng(3, Purpose::kTest, 0, 0);
  VisualMatch::State state = VisualMatch::reset(params, rng);
  state.board.phase = kDistractor;
  state.board.player = params.board.starts[kDistractor].cell[0];
  std::map<unsigned, int> taken_at;  // the plain bookkeeping: bit -> frame of pickup
  std::uint64_t apples = state.board.apples;
  for (int frame = 1; frame < 20000; ++frame) {
    const Outcome outcome = VisualMatch::step(params, state, static_cast<int>(rng.below(4)), rng);
    const unsigned here = apple_bit(state.board.player.row, state.board.player.column);
    const bool takes = (apples >> here) & 1;
    REQUIRE(outcome.reward == (takes ? 1 : 0));
    if (takes) {
      apples &= ~(std::uint64_t{1} << here);
      taken_at[here] = frame;
    }
    for (auto entry = taken_at.begin(); entry != taken_at.end();) {
      if (entry->second + 100 < frame) {
        apples |= std::uint64_t{1} << entry->first;
        entry = taken_at.erase(entry);
      } else {
        ++entry;
      }
    }
    REQUIRE(state.board.apples == apples);
  }
}

TEST_CASE("a level that breaks the form is refused with what is wrong") {
  const auto message_of = [](const Level& level, char target) -> std::string {
    VisualMatch::Params params = visual_match();
    try {
      VisualMatch::set_level(params, level, target);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message_of(open_level(), 'b') == "");
  CHECK(message_of(open_level(), 'x') == "target 'x' is not one of the squares b, c, e");
  CHECK(message_of(open_level(), 'c') == "the explore map holds 'b'; it takes '# +c'");
  Level level = open_level();
  level.maps[kDistractor][0] = "#####";
  CHECK(message_of(level, 'b') == "the distractor map has a row of 5 characters: '#####'; each of the 7 rows takes 11");
  level = open_level();
  level.maps[kReward][3] = "b  c      e";
  CHECK(message_of(level, 'b') == "the reward map holds 0 times '+'; it takes exactly one");
  level = open_level();
  level.maps[kReward][0] = "b          ";
  CHECK(message_of(level, 'b') == "the reward map holds 2 times 'b'; it takes exactly one");
  level = open_level();
  level.maps[kDistractor][6] = "a          ";
  CHECK(message_of(level, 'b') == "an apple in row 6 of the distractor map; apples lie in rows 1..5");
  level = open_level();
  for (int row : {1, 2}) level.maps[kDistractor][row] = "aaaaaaaaaaa";
  CHECK(message_of(level, 'b') == "a map holds more than 22 times 'a'");
}
