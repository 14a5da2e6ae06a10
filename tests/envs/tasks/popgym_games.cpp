// POPGym's games whose steps pay differently, or that have no cards, held against plain models of their rules.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
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

namespace {

std::unique_ptr<VecEnv> make(const std::string& name, const Settings& settings, bool full_state = false) {
  return single_env(name, with_full_state(settings, full_state), 3);
}

void show(Values& values, int number, int width) {
  for (int i = 0; i < width; ++i) values.push_back(i == number ? 1.0f : 0.0f);
}

// A plain model of one episode. What the rules draw at random it takes from the observations.
class Model {
 public:
  virtual ~Model() = default;
  virtual Values seen() const = 0;   // the observation without full_state
  virtual Values added() const = 0;  // what full_state adds
  // `observation`: what the step led to, without full_state.
  virtual void act(int action, const Values& observation) = 0;
  virtual int good_action(Rng& random) const = 0;

  double reward = 0;
  End end = End::kNone;
  bool success = false;
};

class ConcentrationModel final : public Model {
 public:
  ConcentrationModel(const Values& full, int cards, int kinds) : kinds_(kinds), steps_(2 * cards) {
    for (int card = 0; card < cards; ++card) cards_.push_back(shown(full, cards * (kinds + 1) + card * kinds, kinds));
    found_.resize(cards_.size());
    for (int kind = 0; kind < kinds; ++kind) CHECK(std::ranges::count(cards_, kind) == cards / kinds);
  }
  Values seen() const override {
    Values values;
    for (std::size_t card = 0; card < cards_.size(); ++card)
      show(values, found_[card] || std::ranges::count(turned_, card) > 0 ? cards_[card] : kinds_, kinds_ + 1);
    return values;
  }
  Values added() const override {
    Values values;
    for (const int kind : cards_) show(values, kind, kinds_);
    for (const bool found : found_) values.push_back(found);
    values.push_back(waiting_);
    return values;
  }
  void act(int action, const Values&) override {
    const auto card = static_cast<std::size_t>(action);
    if (!waiting_) turned_.clear();
    turned_.push_back(card);
    reward = 0;
    if (found_[card]) {
      reward = -1.0 / steps_ * static_cast<double>(turned_.size());
      waiting_ = false;
    } else if (!waiting_) {
      waiting_ = true;
    } else {
      waiting_ = false;
      if (turned_[0] != turned_[1] && cards_[turned_[0]] == cards_[turned_[1]]) {
        found_[turned_[0]] = found_[turned_[1]] = true;
        reward = 1.0 / (static_cast<double>(cards_.size()) / 2);
      } else {
        reward = -2.0 / steps_;
      }
    }
    success = std::ranges::count(found_, true) == std::ssize(cards_);
    end = success ? End::kTerminated : ++t_ == steps_ ? End::kTruncated : End::kNone;
  }
  int good_action(Rng& random) const override {
    for (;;) {
      const std::size_t card = random.below(static_cast<std::uint32_t>(cards_.size()));
      if (found_[card]) continue;
      if (!waiting_ || (card != turned_[0] && cards_[card] == cards_[turned_[0]])) return static_cast<int>(card);
    }
  }

 private:
  std::vector<int> cards_;
  std::vector<bool> found_;
  std::vector<std::size_t> turned_;
  int kinds_, steps_, t_ = 0;
  bool waiting_ = false;
};

class BanditModel final : public Model {
 public:
  BanditModel(const Values& full, int arms, int steps) : probability_(full.begin() + 2, full.end()), steps_(steps) {
    CHECK(std::ssize(probability_) == arms);
    for (const float probability : probability_) CHECK((probability >= 0 && probability < 1));
  }
  Values seen() const override { return {paid_ ? 0.0f : 1.0f, paid_ ? 1.0f : 0.0f}; }
  Values added() const override { return probability_; }
  void act(int action, const Values& observation) override {
    paid_ = shown(observation, 0, 2) == 1;
    reward = (paid_ ? 1.0 : -1.0) / steps_;
    if (t_++ >= steps_ / 2) {
      ++counted_;
      regret_ += static_cast<double>(std::ranges::max(probability_)) - probability_[static_cast<std::size_t>(action)];
    }
    end = t_ == steps_ ? End::kTruncated : End::kNone;
    success = t_ == steps_ && regret_ / counted_ <= 0.1;
  }
  int good_action(Rng&) const override {
    return static_cast<int>(std::ranges::max_element(probability_) - probability_.begin());
  }

 private:
  Values probability_;
  int steps_, t_ = 0, counted_ = 0;
  double regret_ = 0;
  bool paid_ = false;
};

class HigherLowerModel final : public Model {
 public:
  HigherLowerModel(const Values& full, int decks) : decks_(decks), rank_(shown(full, 0, 13)) { ++dealt_[rank_]; }
  Values seen() const override {
    Values values;
    show(values, rank_, 13);
    return values;
  }
  Values added() const override {
    Values values;
    for (int rank = 0; rank < 13; ++rank) values.push_back(static_cast<float>(count(rank) / 4.0 / decks_));
    return values;
  }
  void act(int action, const Values& observation) override {
    const bool higher = action == 0;
    misjudged_ |= higher ? left(0, rank_) > left(rank_ + 1, 13) : left(0, rank_) < left(rank_ + 1, 13);
    const int next = shown(observation, 0, 13);
    reward = next == rank_ ? 0 : ((next > rank_) == higher ? 1.0 : -1.0) / (52 * decks_);
    rank_ = next;
    CHECK(++dealt_[next] <= 4 * decks_);
    end = left(0, 13) == 0 ? End::kTerminated : End::kNone;
    success = end != End::kNone && !misjudged_;
  }
  int good_action(Rng&) const override { return left(0, rank_) > left(rank_ + 1, 13) ? 1 : 0; }

 private:
  int count(int rank) const { return dealt_.contains(rank) ? dealt_.at(rank) : 0; }
  int left(int first, int end_rank) const {
    int sum = 0;
    for (int rank = first; rank < end_rank; ++rank) sum += 4 * decks_ - count(rank);
    return sum;
  }

  std::map<int, int> dealt_;
  int decks_, rank_;
  bool misjudged_ = false;
};

class MinesweeperModel final : public Model {
 public:
  MinesweeperModel(const Values& full, int size, int mines)
      : size_(size), counts_(std::min(mines + 1, 10)), safe_(size * size - mines) {
    for (int field = 0; field < size * size; ++field)
      mine_.push_back(full[static_cast<std::size_t>(counts_ + field)] == 1);
    opened_.resize(mine_.size());
    CHECK(std::ranges::count(mine_, true) == mines);
  }
  Values seen() const override {
    Values values;
    show(values, count_, counts_);
    return values;
  }
  Values added() const override {
    Values values;
    for (const bool mine : mine_) values.push_back(mine);
    for (const bool opened : opened_) values.push_back(opened);
    return values;
  }
  void act(int action, const Values&) override {
    count_ = 0;
    for (int row = 0; row < size_; ++row)
      for (int column = 0; column < size_; ++column)
        if (std::abs(row - action / size_) <= 1 && std::abs(column - action % size_) <= 1)
          count_ += mine_[static_cast<std::size_t>(row * size_ + column)];
    const auto field = static_cast<std::size_t>(action);
    if (mine_[field]) {
      reward = -0.5 - 1.0 / safe_;
      end = End::kTerminated;
      return;
    }
    reward = opened_[field] ? -0.5 / (safe_ - 2) : 1.0 / safe_;
    opened_[field] = true;
    success = std::ranges::count(opened_, true) == safe_;
    end = success ? End::kTerminated : ++t_ == safe_ ? End::kTruncated : End::kNone;
  }
  int good_action(Rng& random) const override {
    for (;;) {
      const std::size_t field = random.below(static_cast<std::uint32_t>(mine_.size()));
      if (!mine_[field] && !opened_[field]) return static_cast<int>(field);
    }
  }

 private:
  std::vector<bool> mine_, opened_;
  int size_, counts_, safe_, t_ = 0, count_ = 0;
};

class BattleshipModel final : public Model {
 public:
  BattleshipModel(const Values& full, int size) : squares_(size * size) {
    for (int square = 0; square < squares_; ++square) ship_.push_back(full[static_cast<std::size_t>(2 + square)] == 1);
    shot_.resize(ship_.size());
    CHECK(std::ranges::count(ship_, true) == 12);
  }
  Values seen() const override { return {hit_ ? 0.0f : 1.0f, hit_ ? 1.0f : 0.0f}; }
  Values added() const override {
    Values values;
    for (const bool ship : ship_) values.push_back(ship);
    for (const bool shot : shot_) values.push_back(shot);
    return values;
  }
  void act(int action, const Values&) override {
    const auto square = static_cast<std::size_t>(action);
    hit_ = ship_[square] && !shot_[square];
    shot_[square] = true;
    reward = hit_ ? 1.0 / 12 : -1.0 / (squares_ - 12);
    ++t_;
    int sunk = 0;
    for (std::size_t i = 0; i < ship_.size(); ++i) sunk += ship_[i] && shot_[i];
    success = sunk == 12;
    end = success ? End::kTerminated : t_ == squares_ ? End::kTruncated : End::kNone;
  }
  int good_action(Rng& random) const override {
    for (;;) {
      const std::size_t square = random.below(static_cast<std::uint32_t>(squares_));
      if (ship_[square] && !shot_[square]) return static_cast<int>(square);
    }
  }

 private:
  std::vector<bool> ship_, shot_;
  int squares_, t_ = 0;
  bool hit_ = false;
};

struct Game {
  std::string task;
  Settings settings;
  int num_actions, seen, steps;
  std::function<std::unique_ptr<Model>(const Values& full)> model;
};

Game concentration(int decks, const std::string& kind, int kinds) {
  const int cards = 52 * decks;
  return {
      "concentration", {{"num_decks", std::to_string(decks)}, {"kind", kind}},
      cards,           cards * (kinds + 1),
      2 * cards,       [=](const Values& full) { return std::make_unique<ConcentrationModel>(full, cards, kinds); }};
}
Game bandit(int arms, int steps) {
  return {"multiarmed_bandit",
          {{"arms", std::to_string(arms)}, {"pulls", std::to_string(steps)}},
          arms,
          2,
          steps,
          [=](const Values& full) { return std::make_unique<BanditModel>(full, arms, steps); }};
}
Game higher_lower(int decks) {
  return {"higher_lower", {{"num_decks", std::to_string(decks)}}, 2, 13, 52 * decks - 1, [=](const Values& full) {
            return std::make_unique<HigherLowerModel>(full, decks);
          }};
}
Game minesweeper(int size, int mines) {
  return {
      "minesweeper",       {{"size", std::to_string(size)}, {"mines", std::to_string(mines)}},
      size * size,         std::min(mines + 1, 10),
      size * size - mines, [=](const Values& full) { return std::make_unique<MinesweeperModel>(full, size, mines); }};
}
Game battleship(int size) {
  return {"battleship", {{"size", std::to_string(size)}},
          size * size,  2,
          size * size,  [=](const Values& full) {
            return std::make_unique<BattleshipModel>(full, size); }};
}

// Every step is as a plain model of the game says, with and without full_state.
void check_against_model(const std::vector<Game>& games) {
  for (const Game& game : games) {
    CAPTURE(game.task);
    CAPTURE(game.steps);
    CAPTURE(game.num_actions);
    const auto plain = make(game.task, game.settings), full = make(game.task, game.settings, true);
    REQUIRE(plain->info().num_actions() == game.num_actions);
    REQUIRE(plain->info().max_episode_steps == game.steps);
    REQUIRE(plain->info().observation.elements() == game.seen);
    Rng random(5, Purpose::kAction, 0, 0);
    int solved = 0, failed = 0, longest = 0;
    for (std::uint32_t episode = 0; episode < 40; ++episode) {
      CAPTURE(episode);
      plain->reset_all(episode);
      full->reset_all(episode);
      const std::unique_ptr<Model> model = game.model(observation_of(*full));
      const std::uint32_t errors = std::array<std::uint32_t, 5>{0, 2, 50, 300, 1000}[episode % 5];
      int steps = 0;
      for (;; ++steps) {
        CAPTURE(steps);
        const Values seen = observation_of(*plain);
        Values shows = model->seen();
        REQUIRE(seen == shows);
        std::ranges::copy(model->added(), std::back_inserter(shows));
        REQUIRE(observation_of(*full) == shows);
        REQUIRE(plain->reward_N()[0] == static_cast<float>(model->reward));
        REQUIRE(full->reward_N()[0] == plain->reward_N()[0]);
        REQUIRE(plain->end_N()[0] == model->end);
        REQUIRE(full->end_N()[0] == model->end);
        REQUIRE((plain->success_N()[0] != 0) == model->success);
        REQUIRE(full->success_N()[0] == plain->success_N()[0]);
        if (model->end != End::kNone) break;
        const std::int32_t action =
            random.below(1000) < errors
                ? static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(game.num_actions)))
                : model->good_action(random);
        plain->step({&action, 1});
        full->step({&action, 1});
        model->act(action, observation_of(*plain));
      }
      longest = std::max(longest, steps);
      ++(model->success ? solved : failed);
      if (errors == 0) CHECK(model->success);
    }
    CHECK(solved >= 8);
    CHECK(failed > 0);
    CHECK(longest <= game.steps);
    if (game.task != "minesweeper") CHECK(longest == game.steps);
  }
}

}  // namespace

TEST_CASE("concentration is as a plain model says") {
  check_against_model({concentration(1, "colours", 2), concentration(2, "colours", 2), concentration(1, "ranks", 13),
                       concentration(2, "ranks", 13)});
}
TEST_CASE("multi-armed bandit is as a plain model says") {
  check_against_model({bandit(10, 200), bandit(30, 600), bandit(2, 2), bandit(3, 7)});
}
TEST_CASE("higher or lower is as a plain model says") {
  check_against_model({higher_lower(1), higher_lower(2), higher_lower(3)});
}
TEST_CASE("minesweeper is as a plain model says") {
  check_against_model({minesweeper(4, 2), minesweeper(6, 6), minesweeper(8, 10), minesweeper(2, 1), minesweeper(8, 61),
                       minesweeper(7, 9)});
}
TEST_CASE("battleship is as a plain model says") {
  check_against_model({battleship(6), battleship(8), battleship(10), battleship(12)});
}
