// The card games, held against what an agent with a perfect memory works out of the observations alone.
#include "envs/tasks/popgym/cards.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/envs/single_env.h"

using namespace engram;
using namespace engram::testing;

namespace {

using History = std::vector<std::vector<int>>;  // the parts of every observation so far

struct Game {
  std::string task;
  Settings settings;
  std::vector<int> widths;  // of the parts
  int num_actions, steps, questions;
  std::function<int(const History&)> right;  // kNoAnswer while nothing is asked
};

Game repeat_first(int decks) {
  return {"repeat_first",
          {{"num_decks", std::to_string(decks)}},
          {4},
          4,
          52 * decks - 1,
          52 * decks - 1,
          [](const History& history) { return history[0][0]; }};
}

Game repeat_previous(int decks, int k) {
  return {"repeat_previous",
          {{"num_decks", std::to_string(decks)}, {"k", std::to_string(k)}},
          {4},
          4,
          52 * decks - 1,
          52 * decks - k,
          [k](const History& history) {
            const int past = static_cast<int>(history.size()) - k;
            return past < 0 ? cards::kNoAnswer : history[static_cast<std::size_t>(past)][0];
          }};
}

Game autoencode(int decks) {
  const int cards = 52 * decks;
  return {"autoencode",
          {{"num_decks", std::to_string(decks)}},
          {2, 4},
          4,
          2 * cards - 1,
          cards,
          [](const History& history) {
            // The first moment of playing shows the last card; from there it goes back, a card a step.
            std::size_t first = 0;
            while (first < history.size() && history[first][0] == 1) ++first;
            if (first == history.size()) return cards::kNoAnswer;
            if (history.size() - 1 > first) CHECK(history.back()[1] == 0);
            return history[2 * first + 1 - history.size()][1];
          }};
}

Game count_recall(int decks, const std::string& kind, int kinds) {
  return {"count_recall",
          {{"num_decks", std::to_string(decks)}, {"kind", kind}},
          {kinds, kinds},
          52 * decks / kinds + 1,
          52 * decks - 1,
          52 * decks - 1,
          [](const History& history) {
            int count = 0;
            for (const std::vector<int>& parts : history) count += parts[0] == history.back()[1];
            return count;
          }};
}

std::vector<Game> games() {
  return {repeat_first(1),
          repeat_first(16),
          repeat_previous(1, 1),
          repeat_previous(1, 4),
          repeat_previous(1, 51),
          repeat_previous(3, 64),
          autoencode(1),
          autoencode(3),
          count_recall(1, "colours", 2),
          count_recall(2, "suits", 4),
          count_recall(4, "ranks", 13),
          count_recall(4, "colours", 2)};
}

std::unique_ptr<VecEnv> make(const Game& game, bool full_state = false) {
  return single_env(game.task, with_full_state(game.settings, full_state), 3);
}

// The parts whose one-hot codes stand one after the other.
std::vector<int> parts_of(const std::vector<float>& observation, const std::vector<int>& widths) {
  std::vector<int> parts;
  std::size_t at = 0;
  for (const int width : widths) {
    int ones = 0;
    for (int i = 0; i < width; ++i, ++at) {
      REQUIRE((observation[at] == 0 || observation[at] == 1));
      if (observation[at] == 1) parts.push_back(i), ++ones;
    }
    REQUIRE(ones == 1);
  }
  REQUIRE(at == observation.size());
  return parts;
}

}  // namespace

TEST_CASE("every answer pays or costs its share, and all of them make an episode's success") {
  for (const Game& game : games()) {
    CAPTURE(game.task);
    CAPTURE(game.steps);
    const auto plain = make(game), full = make(game, true);
    REQUIRE(plain->info().num_actions() == game.num_actions);
    REQUIRE(plain->info().max_episode_steps == game.steps);
    const float share = static_cast<float>(1.0 / game.questions);
    Rng random(5, Purpose::kAction, 0, 0);
    for (std::uint32_t episode = 0; episode < 12; ++episode) {
      CAPTURE(episode);
      plain->reset_all(episode);
      full->reset_all(episode);
      // Without an error, with one in the last answer, with one in the first, with many.
      const int errors = static_cast<int>(episode % 4);
      History history;
      int asked = 0, wrong = 0;
      double sum = 0;
      for (int t = 0; t < game.steps; ++t) {
        REQUIRE(plain->end_N()[0] == End::kNone);
        REQUIRE(plain->success_N()[0] == 0);
        const std::vector<float> seen = observation_of(*plain);
        history.push_back(parts_of(seen, game.widths));
        const int right = game.right(history);
        std::vector<float> shown = seen;
        for (int i = 0; i < game.num_actions; ++i) shown.push_back(i == right ? 1.0f : 0.0f);
        REQUIRE(observation_of(*full) == shown);
        CHECK_FALSE(full->cue(0));

        std::int32_t action = right == cards::kNoAnswer ? 0 : right;
        const bool errs = (errors == 1 && t + 1 == game.steps) || (errors == 2 && asked == 0) ||
                          (errors == 3 && random.below(2) == 0);
        if (errs) action = (action + 1) % game.num_actions;
        plain->step({&action, 1});
        full->step({&action, 1});
        REQUIRE(full->reward_N()[0] == plain->reward_N()[0]);
        if (right == cards::kNoAnswer) {
          REQUIRE(plain->reward_N()[0] == 0);
        } else {
          REQUIRE(plain->reward_N()[0] == (action == right ? share : -share));
          ++asked;
          wrong += action != right;
        }
        sum += plain->reward_N()[0];
      }
      CHECK(plain->end_N()[0] == End::kTerminated);
      parts_of(observation_of(*plain), game.widths);
      CHECK(asked == game.questions);
      CHECK(sum == doctest::Approx(1 - 2.0 * wrong / game.questions).epsilon(1e-4));
      if (errors < 3) CHECK(wrong == (errors == 0 ? 0 : 1));
      CHECK((plain->success_N()[0] != 0) == (wrong == 0));
      CHECK(full->success_N()[0] == plain->success_N()[0]);
    }
  }
}

TEST_CASE("repeat first: one suit answered throughout is right in a quarter of the episodes, as its chance says") {
  const auto environment = make(repeat_first(1));
  constexpr std::uint32_t kEpisodes = 4000;
  int solved = 0;
  for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
    environment->reset_all(episode);
    for (const std::int32_t action = 2; environment->end_N()[0] == End::kNone;) environment->step({&action, 1});
    solved += environment->success_N()[0];
  }
  const double chance = *environment->info().chance_success;
  CHECK(chance == 0.25);
  CHECK(std::abs(solved - chance * kEpisodes) < 5 * std::sqrt(chance * (1 - chance) * kEpisodes));
}

TEST_CASE("drawn are the card in sight and the right answer, or both cards; the first card is a cue") {
  for (const Game& game : {repeat_first(1), repeat_previous(1, 4), autoencode(1), count_recall(4, "ranks", 13)}) {
    CAPTURE(game.task);
    const auto environment = make(game);
    History history;
    while (environment->end_N()[0] == End::kNone) {
      history.push_back(parts_of(observation_of(*environment), game.widths));
      const auto t = history.size() - 1;
      const int right = game.right(history);
      int upper = history.back()[0], lower = right;
      if (game.task == "autoencode") upper = t < 52 ? history.back()[1] : cards::kNoAnswer;
      if (game.task == "count_recall") lower = history.back()[1];
      Canvas canvas;
      environment->draw(0, canvas);
      REQUIRE(canvas.rows() == 2);
      REQUIRE(canvas.columns() == game.widths.back());
      for (int kind = 0; kind < canvas.columns(); ++kind) {
        CHECK((canvas.at(0, kind) != cards::kTable) == (kind == upper));
        CHECK((canvas.at(1, kind) != cards::kTable) == (kind == lower));
      }
      const auto cue = environment->cue(0);
      REQUIRE(cue.has_value() == (game.task == "repeat_first" && t > 0));
      if (cue) {
        CHECK(cue->text == environment->info().action.names[static_cast<std::size_t>(right)]);
        CHECK(cue->colour == canvas.at(1, right));
      }
      const std::int32_t action = 0;
      environment->step({&action, 1});
    }
  }
}

TEST_CASE("a shuffled pile holds as many of each kind, in every place with the same odds, whatever lies before it") {
  using Pile = cards::Pile<4, 208>;
  constexpr int kPiles = 20'000, kCards = 52;
  int count[kCards][cards::kRanks] = {}, same_as_next = 0;
  for (std::uint32_t episode = 0; episode < kPiles; ++episode) {
    Rng rng(1, Purpose::kTest, 0, episode);
    const Pile pile = Pile::shuffled(kCards, cards::kRanks, rng);
    int of_kind[cards::kRanks] = {};
    for (int card = 0; card < kCards; ++card) {
      ++of_kind[pile[card]];
      ++count[card][pile[card]];
    }
    for (const int number : of_kind) REQUIRE(number == kCards / cards::kRanks);
    for (int card = 0; card + 1 < kCards; ++card) same_as_next += pile[card] == pile[card + 1];
  }
  const auto within = [](int found, double odds, double trials) {
    return std::abs(found - odds * trials) < 5.5 * std::sqrt(odds * (1 - odds) * trials);
  };
  for (const auto& place : count)
    for (const int found : place) CHECK(within(found, 1.0 / cards::kRanks, kPiles));
  CHECK(within(same_as_next, 3.0 / 51, 51.0 * kPiles));  // three more of its kind among 51 other cards
}

TEST_CASE("options out of bounds, or that contradict each other, are refused by name") {
  CHECK(settings_error("repeat_first", {{"num_decks", "17"}}) ==
        "task.num_decks = '17' is not allowed; it takes integer 1..16");
  CHECK(settings_error("count_recall", {{"num_decks", "5"}}) ==
        "task.num_decks = '5' is not allowed; it takes integer 1..4");
  CHECK(settings_error("repeat_previous", {{"k", "0"}}) == "task.k = '0' is not allowed; it takes integer 1..831");
  CHECK(settings_error("repeat_previous", {{"k", "51"}}) == "");
  CHECK(settings_error("repeat_previous", {{"k", "52"}}) ==
        "task.k = '52' is not allowed with task.num_decks = 1; it takes integer 1..51");
  CHECK(settings_error("repeat_previous", {{"k", "52"}, {"num_decks", "2"}}) == "");
}
