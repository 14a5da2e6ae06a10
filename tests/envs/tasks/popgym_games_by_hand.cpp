// POPGym's games whose steps pay differently, or that have no cards, by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "envs/tasks/popgym/battleship.h"
#include "envs/tasks/popgym/concentration.h"
#include "envs/tasks/popgym/higher_lower.h"
#include "envs/tasks/popgym/minesweeper.h"
#include "envs/tasks/popgym/multiarmed_bandit.h"
#include "tests/envs/single_env.h"
#include "tests/envs/tasks/played_game.h"

using namespace engram;
using namespace engram::testing;

TEST_CASE("concentration: a card of the wrong sort ends the turn, and what was turned over is hidden by the next one") {
  Concentration::Options options;
  options.kind = CardKind::kRanks;
  Concentration::KindPile kinds{};
  for (int card = 0; card < 52; ++card) kinds.set(card, card % 13);
  const Concentration::Params params = Concentration::make_params(options, 0, Purpose::kTest);
  Played<Concentration> game{params, Concentration::start(params, kinds)};
  const auto up = [&game] {
    const Values seen = game.seen();
    std::vector<int> cards;
    for (int card = 0; card < 52; ++card) {
      const int kind = shown(seen, 14 * card, 14);
      if (kind == 13) continue;
      CHECK(kind == card % 13);
      cards.push_back(card);
    }
    return cards;
  };
  const auto check = [&](int action, double reward, const std::vector<int>& cards, const std::string& phase) {
    const Outcome outcome = game.step(action);
    CHECK(outcome.reward == static_cast<float>(reward));
    CHECK(outcome.end == End::kNone);
    CHECK(up() == cards);
    CHECK(Concentration::phase(params, game.state) == phase);
    Canvas canvas;
    Concentration::draw(params, game.state, canvas);
    for (int card = 0; card < 52; ++card)
      CHECK((canvas.at(card / 13, card % 13) == Rgb{150, 160, 175}) == (std::ranges::count(cards, card) == 0));
  };
  CHECK(up().empty());
  check(0, 0, {0}, "second card");
  check(0, -2.0 / 104, {0}, "first card");  // the same card twice
  check(0, 0, {0}, "second card");
  check(1, -2.0 / 104, {0, 1}, "first card");  // no pair
  check(13, 0, {13}, "second card");
  check(26, 1.0 / 26, {13, 26}, "first card");    // a pair
  check(26, -1.0 / 104, {13, 26}, "first card");  // a card that was found, as the first one
  check(1, 0, {1, 13, 26}, "second card");
  check(13, -2.0 / 104, {1, 13, 26}, "first card");  // and as the second one
  check(39, 0, {13, 26, 39}, "second card");
  check(0, 1.0 / 26, {0, 13, 26, 39}, "first card");
}

TEST_CASE("multi-armed bandit: what counts is the second half") {
  MultiarmedBandit::Options options;
  options.arms = 3;
  options.pulls = 5;
  const MultiarmedBandit::Params params = MultiarmedBandit::make_params(options, 0, Purpose::kTest);
  const float probability[] = {0.25f, 0.75f, 0.7f};
  const auto solved = [&](const std::vector<int>& actions) {
    MultiarmedBandit::State state = MultiarmedBandit::start(params, probability);
    for (const int action : actions) {
      CHECK_FALSE(MultiarmedBandit::success(params, state));
      CHECK(MultiarmedBandit::phase(params, state) == (state.t < 2 ? "first half" : "second half"));
      const bool paid = state.t % 2 == 0;
      const Outcome outcome = MultiarmedBandit::step_with(params, state, action, paid);
      CHECK(outcome.reward == (paid ? 0.2f : -0.2f));
      CHECK(outcome.end == (state.t == 5 ? End::kTruncated : End::kNone));
      Canvas canvas;
      MultiarmedBandit::draw(params, state, canvas);
      for (int arm = 0; arm < 3; ++arm)
        CHECK(canvas.at(1, arm) == (arm != action ? cards::kTable : paid ? Rgb{0, 160, 0} : Rgb{210, 0, 0}));
      CHECK(canvas.at(0, 0).red < canvas.at(0, 2).red);
      CHECK(canvas.at(0, 2).red < canvas.at(0, 1).red);
    }
    return MultiarmedBandit::success(params, state);
  };
  CHECK(solved({0, 0, 1, 1, 1}));
  CHECK(solved({0, 0, 2, 2, 2}));
  CHECK_FALSE(solved({1, 1, 0, 0, 0}));
  CHECK_FALSE(solved({1, 1, 0, 1, 1}));  // 0.5 / 3 on average
}

TEST_CASE("higher or lower: a push pays nothing, and a guess is judged by the cards that are left") {
  const HigherLower::Params params = HigherLower::make_params({}, 0, Purpose::kTest);
  HigherLower::State state = HigherLower::start(params, 6);  // 24 cards are higher, 24 lower
  const auto step = [&](int action, int next) { return HigherLower::step_with(params, state, action, next).reward; };
  CHECK(step(1, 6) == 0);  // even odds: either guess will do
  CHECK_FALSE(state.misjudged);
  CHECK(step(0, 9) == 1.0f / 52);
  CHECK_FALSE(state.misjudged);
  CHECK(step(1, 12) == -1.0f / 52);  // 9 lies above most
  CHECK_FALSE(state.misjudged);
  CHECK(step(1, 6) == 1.0f / 52);
  CHECK_FALSE(state.misjudged);
  HigherLower::State other = state;
  CHECK(HigherLower::step_with(params, other, 0, 7).reward == 1.0f / 52);  // 22 higher are left, and 24 lower
  CHECK(other.misjudged);
  CHECK(step(1, 7) == -1.0f / 52);
  CHECK_FALSE(state.misjudged);
  Canvas canvas;
  HigherLower::draw(params, state, canvas);
  for (int rank = 0; rank < 13; ++rank) CHECK((canvas.at(0, rank) != cards::kTable) == (rank == 7));
  CHECK(canvas.at(1, 6).green < canvas.at(1, 7).green);
  CHECK(canvas.at(1, 7).green < canvas.at(1, 0).green);
}

TEST_CASE("minesweeper: numbers stop at the edges and count a mine itself; a mine ends the episode") {
  const Minesweeper::Params params = Minesweeper::make_params({}, 0, Purpose::kTest);
  // Mines in the upper right corner and in row 1, column 1.
  Played<Minesweeper> game{params, Minesweeper::start(1u << 3 | 1u << 5)};
  const auto check = [&](int action, int count, double reward, End end) {
    const Outcome outcome = game.step(action);
    CHECK(outcome.reward == static_cast<float>(reward));
    CHECK(outcome.end == end);
    CHECK(shown(game.seen(), 0, 3) == count);
  };
  CHECK(shown(game.seen(), 0, 3) == 0);
  check(4, 1, 1.0 / 14, End::kNone);  // beside the edge, not beside the mine at the end of the row above
  check(2, 2, 1.0 / 14, End::kNone);
  check(4, 1, -0.5 / 12, End::kNone);
  check(15, 0, 1.0 / 14, End::kNone);
  check(15, 0, -0.5 / 12, End::kNone);
  Canvas canvas;
  Minesweeper::draw(params, game.state, canvas);
  CHECK(canvas.at(3, 3) == Rgb{255, 255, 255});
  CHECK(canvas.at(0, 3) == canvas.at(1, 1));
  CHECK(canvas.at(0, 0) == canvas.at(3, 0));
  for (const auto& [row, column] : {std::pair{0, 3}, {3, 3}, {1, 0}, {0, 2}})
    CHECK(canvas.at(row, column) != canvas.at(3, 0));
  check(5, 1, -0.5 - 1.0 / 14, End::kTerminated);
  CHECK_FALSE(Minesweeper::success(params, game.state));
  // The mine that was hit, unlike the other, and unlike what is under it.
  Minesweeper::draw(params, game.state, canvas);
  CHECK(canvas.at(1, 1) == Rgb{210, 0, 0});
  CHECK(canvas.at(0, 3) != canvas.at(1, 1));
}

TEST_CASE("battleship: a square hit before is a miss, and the last ship's last square ends the episode") {
  const Battleship::Params params = Battleship::make_params({}, 0, Purpose::kTest);
  Battleship::Squares ships{};
  for (int square = 20; square < 32; ++square) ships.set(square, 1);
  Played<Battleship> game{params, Battleship::start(ships)};
  const auto check = [&](int action, bool hit, End end) {
    const Outcome outcome = game.step(action);
    CHECK(outcome.reward == static_cast<float>(hit ? 1.0 / 12 : -1.0 / 52));
    CHECK(outcome.end == end);
    CHECK(game.seen() == (hit ? Values{0, 1} : Values{1, 0}));
  };
  CHECK(game.seen() == Values{1, 0});
  check(20, true, End::kNone);
  check(20, false, End::kNone);
  check(63, false, End::kNone);
  Canvas canvas;
  Battleship::draw(params, game.state, canvas);
  std::vector<Rgb> colours = {canvas.at(2, 4), canvas.at(2, 5), canvas.at(7, 7), canvas.at(7, 6)};
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::ranges::count(colours, colours[i]) == 1);
  for (int square = 21; square < 32; ++square) check(square, true, square < 31 ? End::kNone : End::kTerminated);
  CHECK(Battleship::success(params, game.state));
}

TEST_CASE("options of these games that are out of bounds are refused by name") {
  CHECK(settings_error("concentration", {{"num_decks", "3"}}) ==
        "task.num_decks = '3' is not allowed; it takes integer 1..2");
  CHECK(settings_error("concentration", {{"kind", "suits"}}) ==
        "task.kind = 'suits' is not allowed; it takes colours | ranks");
  CHECK(settings_error("multiarmed_bandit", {{"arms", "31"}}) ==
        "task.arms = '31' is not allowed; it takes integer 2..30");
  CHECK(settings_error("higher_lower", {{"num_decks", "4"}}) ==
        "task.num_decks = '4' is not allowed; it takes integer 1..3");
  CHECK(settings_error("minesweeper", {{"mines", "14"}}) ==
        "task.mines = '14' is not allowed with task.size = 4; it takes integer 1..13");
  CHECK(settings_error("minesweeper", {{"mines", "13"}}) == "");
  CHECK(settings_error("minesweeper", {{"size", "2"}, {"mines", "1"}}) == "");
  CHECK(settings_error("battleship", {{"size", "5"}}) == "task.size = '5' is not allowed; it takes integer 6..12");
}
