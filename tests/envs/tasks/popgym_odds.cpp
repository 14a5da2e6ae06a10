// What POPGym's games draw at random, and how far play without memory comes in them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "envs/tasks/popgym/battleship.h"
#include "envs/tasks/popgym/higher_lower.h"
#include "envs/tasks/popgym/minesweeper.h"
#include "envs/tasks/popgym/multiarmed_bandit.h"
#include "envs/vec/vec_env.h"

using namespace engram;

namespace {

bool near_odds(double found, double odds, double trials, double sigmas = 5) {
  return std::abs(found - odds * trials) <= sigmas * std::sqrt(odds * (1 - odds) * trials);
}

// Share of episodes solved by a player that sees nothing but the observation.
double solved(const std::string& preset, int episodes, const std::function<int(const float*, Rng&)>& player) {
  constexpr int kRows = 200;
  const auto environment = make_cpu_vec_env(TaskConfig::from_preset(preset), 3, Purpose::kTest, kRows, 1);
  const auto elements = environment->info().observation.elements();
  Rng random(9, Purpose::kAction, 0, 0);
  std::vector<float> observations(static_cast<std::size_t>(kRows * elements));
  std::vector<std::int32_t> actions(kRows);
  // As many episodes of each row: short ones do not count more.
  std::vector<int> played(kRows);
  int right = 0;
  while (std::ranges::min(played) < episodes / kRows) {
    environment->reset_finished();
    std::memcpy(observations.data(), environment->observation_N().data(), environment->observation_N().size());
    for (int i = 0; i < kRows; ++i) actions[static_cast<std::size_t>(i)] = player(&observations[i * elements], random);
    environment->step(actions);
    for (int i = 0; i < kRows; ++i) {
      if (environment->end_N()[i] == End::kNone || ++played[static_cast<std::size_t>(i)] > episodes / kRows) continue;
      right += environment->success_N()[i];
    }
  }
  return static_cast<double>(right) / (episodes / kRows * kRows);
}

}  // namespace

TEST_CASE("battleship: ships lie as the original's procedure places them, try after try") {
  constexpr int kBoards = 40'000, kSize = 6;
  Battleship::Options options;
  options.size = kSize;
  const Battleship::Params params = Battleship::make_params(options, 0, Purpose::kTest);
  // How often there is a ship on a square, and on a square and the next one in its row.
  std::vector<int> ours(2 * kSize * kSize), theirs(ours.size());
  const auto count = [](std::vector<int>& counts, const std::function<bool(int)>& ship) {
    for (int square = 0; square < kSize * kSize; ++square) {
      counts[static_cast<std::size_t>(square)] += ship(square);
      if (square % kSize < kSize - 1)
        counts[static_cast<std::size_t>(kSize * kSize + square)] += ship(square) && ship(square + 1);
    }
  };
  Rng random(4, Purpose::kTest, 0, 0);
  for (std::uint32_t i = 0; i < kBoards; ++i) {
    Rng rng(1, Purpose::kTest, 0, i);
    const Battleship::State state = Battleship::reset(params, rng);
    count(ours, [&](int square) { return state.ships[square] != 0; });
    bool board[kSize][kSize] = {};
    for (const int length : {2, 3, 3, 4}) {
      for (bool placed = false; !placed;) {
        int from[2] = {static_cast<int>(random.below(kSize)), static_cast<int>(random.below(kSize))};
        const auto axis = random.below(2);
        int to[2] = {from[0], from[1]};
        to[axis] += (random.below(2) == 0 ? 1 : -1) * (length - 1);
        if (to[axis] < 0 || to[axis] >= kSize) continue;
        if (to[axis] < from[axis]) std::swap(from[axis], to[axis]);
        int taken = 0;
        for (int row = from[0]; row <= to[0]; ++row)
          for (int column = from[1]; column <= to[1]; ++column) taken += board[row][column];
        if (taken > 0) continue;
        for (int row = from[0]; row <= to[0]; ++row)
          for (int column = from[1]; column <= to[1]; ++column) board[row][column] = true;
        placed = true;
      }
    }
    count(theirs, [&](int square) { return board[square / kSize][square % kSize]; });
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    CAPTURE(i);
    const double odds = (ours[i] + theirs[i]) / (2.0 * kBoards);
    CHECK(std::abs(ours[i] - theirs[i]) <= 5 * std::sqrt(2 * odds * (1 - odds) * kBoards));
  }
  CHECK(ours[0] < ours[kSize + 1]);  // fewer in the corner: the comparison can see such a thing
}

TEST_CASE("minesweeper: every set of fields is mined as often") {
  constexpr int kBoards = 120'000;
  const Minesweeper::Params params = Minesweeper::make_params({}, 0, Purpose::kTest);
  std::vector<int> pairs(256);
  for (std::uint32_t i = 0; i < kBoards; ++i) {
    Rng rng(1, Purpose::kTest, 0, i);
    const std::uint64_t mines = Minesweeper::reset(params, rng).mines;
    std::vector<std::size_t> fields;
    for (std::size_t field = 0; field < 64; ++field)
      if ((mines >> field & 1) != 0) fields.push_back(field);
    REQUIRE(fields.size() == 2);
    REQUIRE(fields[1] < 16);
    ++pairs[fields[0] * 16 + fields[1]];
  }
  for (std::size_t a = 0; a < 16; ++a)
    for (std::size_t b = a + 1; b < 16; ++b) CHECK(near_odds(pairs[a * 16 + b], 1.0 / 120, kBoards));
}

TEST_CASE("higher or lower: all orders of the deck are as likely") {
  constexpr int kDecks = 20'000;
  const HigherLower::Params params = HigherLower::make_params({}, 0, Purpose::kTest);
  int count[52][13] = {}, same_as_next = 0;
  for (std::uint32_t i = 0; i < kDecks; ++i) {
    Rng rng(1, Purpose::kTest, 0, i);
    HigherLower::State state = HigherLower::reset(params, rng);
    for (int card = 0;; ++card) {
      ++count[card][state.rank];
      if (card == 51) break;
      const int before = state.rank;
      HigherLower::step(params, state, 0, rng);
      same_as_next += state.rank == before;
    }
    REQUIRE(state.left == 0);
  }
  for (const auto& place : count)
    for (const int found : place) CHECK(near_odds(found, 1.0 / 13, kDecks, 5.5));
  CHECK(near_odds(same_as_next, 3.0 / 51, 51.0 * kDecks));
}

TEST_CASE("multi-armed bandit: arms pay with their probabilities, which are uniform") {
  MultiarmedBandit::Options options;
  options.arms = 30;
  options.pulls = 300;
  const MultiarmedBandit::Params params = MultiarmedBandit::make_params(options, 0, Purpose::kTest);
  constexpr int kEpisodes = 2'000;
  int tenth[10] = {}, paid[10] = {}, pulls[10] = {};
  double expected[10] = {}, variance[10] = {};
  for (std::uint32_t i = 0; i < kEpisodes; ++i) {
    Rng rng(1, Purpose::kTest, 0, i);
    MultiarmedBandit::State state = MultiarmedBandit::reset(params, rng);
    for (int arm = 0; arm < 30; ++arm) ++tenth[static_cast<int>(10 * state.probability[arm])];
    for (int t = 0; t < 300; ++t) {
      const double probability = state.probability[t % 30];
      const int of = static_cast<int>(10 * state.probability[t % 30]);
      paid[of] += MultiarmedBandit::step(params, state, t % 30, rng).reward > 0;
      ++pulls[of];
      expected[of] += probability;
      variance[of] += probability * (1 - probability);
    }
  }
  for (int of = 0; of < 10; ++of) {
    CHECK(near_odds(tenth[of], 0.1, 30.0 * kEpisodes));
    CHECK(std::abs(paid[of] - expected[of]) <= 5 * std::sqrt(variance[of]));
  }
}

TEST_CASE("play without memory comes as far as the games' pages say") {
  const auto near_share = [](double share, double odds, int episodes) {
    CAPTURE(share);
    CAPTURE(odds);
    CHECK(near_odds(share * episodes, odds, episodes, 4));
  };
  // One arm throughout: it is within 0.1 of the best, of A, with these odds.
  for (const auto& [preset, arms] : {std::pair{"multiarmed_bandit_easy", 10}, {"multiarmed_bandit_hard", 30}})
    near_share(solved(preset, 5'000, [](const float*, Rng&) { return 1; }), 0.1 + (1 - std::pow(0.1, arms)) / arms,
               5'000);
  // By the card in sight: what is more likely of a full deck. Shares of 400,000 decks, shuffled by another generator.
  const auto by_card = [](const float* observation, Rng&) {
    return std::find(observation, observation + 13, 1.0f) - observation > 6 ? 1 : 0;
  };
  near_share(solved("higher_lower_easy", 40'000, by_card), 0.0925, 40'000);
  near_share(solved("higher_lower_medium", 40'000, by_card), 0.0361, 40'000);
  near_share(solved("higher_lower_hard", 40'000, by_card), 0.0213, 40'000);
  // Squares at random: 12 of them among as many draws as there are squares.
  for (const auto& [preset, squares] : {std::pair{"battleship_easy", 64}, {"battleship_hard", 144}}) {
    double odds = 0, ways = 1;
    for (int missed = 0; missed <= 12; ++missed) {
      odds += (missed % 2 == 0 ? 1 : -1) * ways * std::pow(1 - static_cast<double>(missed) / squares, squares);
      ways = ways * (12 - missed) / (missed + 1);
    }
    near_share(solved(preset, 20'000,
                      [squares = squares](const float*, Rng& random) {
                        return static_cast<int>(random.below(static_cast<std::uint32_t>(squares)));
                      }),
               odds, 20'000);
  }
  // Cards at random among those that lie face down. With colours by the numbers of cards left of each, turn by turn.
  const auto face_down = [](int cards, int kinds) {
    return [=](const float* observation, Rng& random) {
      std::vector<int> down;
      for (int card = 0; card < cards; ++card)
        if (observation[card * (kinds + 1) + kinds] == 1) down.push_back(card);
      REQUIRE_FALSE(down.empty());
      return down[random.below(static_cast<std::uint32_t>(down.size()))];
    };
  };
  near_share(solved("concentration_easy", 4'000, face_down(52, 2)), 0.514, 4'000);
  near_share(solved("concentration_medium", 4'000, face_down(104, 2)), 0.5005, 4'000);
  near_share(solved("concentration_hard", 4'000, face_down(52, 13)), 0.0, 4'000);
}
