// Recorded episodes of POPGym's games whose steps pay differently, or that have no cards, against the rules.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/envs/recorded/golden_episodes.h"

using namespace engram;
using namespace engram::testing;

namespace {

const std::string kGolden = golden_file("popgym.jsonl");
const std::vector<std::string> kTasks = {"concentration", "multiarmed_bandit", "higher_lower", "minesweeper",
                                         "battleship"};

Json first_of(const std::string& task, bool success) {
  return first_episode(kGolden, [&](const Json& it) { return it["env"] == task && it["success"] == success; });
}

std::string at_step(std::size_t step, const std::string& what) {
  return "step " + std::to_string(step) + ": " + what + "\n";
}

// Without the last step.
Json shortened(Json episode) {
  const std::size_t length = episode["length"].get<std::size_t>() - 1;
  episode["length"] = length;
  episode["actions"].erase(length);
  const auto cut = [&](const char* const field, std::size_t size) {
    if (episode[field].is_array())
      episode[field].erase(size);
    else
      episode[field] = episode[field].get<std::string>().substr(0, size);
  };
  cut("rewards", length);
  cut("obs", length + 1);
  return episode;
}

}  // namespace

TEST_CASE("the golden file has every size of these games, with every end, solved and not") {
  std::set<std::string> found;
  for (const Json& episode : golden_episodes(kGolden))
    if (episode.contains("end"))
      found.insert(episode["size"].get<std::string>() + " " + episode["end"].get<std::string>() +
                   (episode["success"].get<bool>() ? " solved" : " not solved"));
  std::set<std::string> wanted;
  for (const std::string size : {"Easy", "Medium", "Hard"})
    for (const std::string outcome :
         {"Concentration? terminated solved", "Concentration? truncated not solved",
          "MultiarmedBandit? truncated solved", "MultiarmedBandit? truncated not solved",
          "HigherLower? terminated solved", "HigherLower? terminated not solved", "MineSweeper? terminated solved",
          "MineSweeper? terminated not solved", "MineSweeper? truncated not solved", "Battleship? terminated solved",
          "Battleship? truncated not solved"}) {
      std::string name = outcome;
      wanted.insert(name.replace(name.find('?'), 1, size));
    }
  CHECK(found == wanted);
}

TEST_CASE("an episode that is solved with the last step allowed ends as solved") {
  // Both ends at once: the golden file has them, said as terminated.
  for (const std::string& task : {std::string("concentration"), std::string("battleship")}) {
    CAPTURE(task);
    const Json episode = first_episode(kGolden, [&](const Json& it) {
      return it["env"] == task && it["success"] == true && it["length"] == (task == "battleship" ? 64 : 104);
    });
    CHECK(mismatch_of(episode) == "");
    Json changed = episode;
    changed["end"] = "truncated";
    CHECK(mismatch_of(changed) == at_step(episode["length"].get<std::size_t>() - 1, "end of the episode") +
                                      "  expected truncated\n  came     terminated");
  }
}

TEST_CASE("any difference from these games is a mismatch at its step") {
  for (const std::string& task : kTasks) {
    CAPTURE(task);
    const Json episode = first_of(task, true);
    REQUIRE(mismatch_of(episode) == "");
    const std::size_t length = episode["length"];
    for (const std::size_t step : {std::size_t{0}, length / 2, length}) {
      Json changed = episode;
      if (task == "concentration") {
        const auto face_down = episode["kind"] == "colours" ? 2 : 13;
        changed["obs"][step] = Json::array({51, 0, 50, face_down, 51, 1});
      } else {
        const std::string seen = episode["obs"];
        changed = with_symbol(episode, "obs", step, seen[step] == '0' ? '1' : '0');
      }
      // What an arm pays is taken from the recording, so that the reward is what differs.
      const bool bandit = task == "multiarmed_bandit" && step > 0;
      CHECK(mismatch_of(changed).starts_with(bandit ? at_step(step - 1, "reward") : at_step(step, "observation")));
    }
    const std::string rewards = episode["rewards"];
    for (const std::size_t step : {std::size_t{0}, length / 2, length - 1}) {
      Json changed = with_symbol(episode, "rewards", step, rewards[step] == '0' ? '1' : '0');
      if (changed["reward_values"].size() == 1) changed["reward_values"].push_back(0);
      CHECK(mismatch_of(changed).starts_with(at_step(step, "reward")));
    }
    for (std::size_t i = 0; i < episode["reward_values"].size(); ++i) {
      const auto value = episode["reward_values"][i].get<double>();
      Json changed = episode;
      changed["reward_values"][i] = value == 0 ? 1e-6 : value * (1 + 1e-6);
      CHECK(mismatch_of(changed).find(": reward\n") != std::string::npos);
      changed["reward_values"][i] = static_cast<double>(static_cast<float>(value));
      CHECK(mismatch_of(changed) == "");
    }
    Json changed = episode;
    changed["success"] = false;
    CHECK(mismatch_of(changed).starts_with(at_step(length, "success")));
    changed = episode;
    changed["end"] = episode["end"] == "terminated" ? "truncated" : "terminated";
    CHECK(mismatch_of(changed).starts_with(at_step(length - 1, "end of the episode")));
    CHECK(mismatch_of(shortened(episode)).starts_with(at_step(length - 2, "end of the episode")));
  }
  // The layouts.
  Json changed = first_of("concentration", true);
  const std::string cards = changed["cards"];
  const std::size_t turned = changed["actions"][0];
  const std::size_t other = cards.find(cards[turned] == '0' ? '1' : '0');
  changed["cards"] = with_symbol(Json(with_symbol(changed["cards"], turned, cards[other])), other, cards[turned]);
  CHECK(mismatch_of(changed).starts_with(at_step(1, "observation")));
  changed = first_of("multiarmed_bandit", true);
  changed["probabilities"][changed["actions"].back().get<std::size_t>()] = 0.01;
  CHECK(mismatch_of(changed).starts_with(at_step(changed["length"], "success")));
  changed = first_of("higher_lower", true);
  const std::string ranks = changed["cards"];
  const std::size_t place = ranks.find_first_not_of(ranks[20], 21);
  changed["cards"] = with_symbol(Json(with_symbol(changed["cards"], 20, ranks[place])), place, ranks[20]);
  CHECK(mismatch_of(changed).starts_with("step "));
  changed = first_of("minesweeper", true);
  const std::size_t opened = changed["actions"][3];
  const std::string mines = changed["mines"];
  changed["mines"] = with_symbol(Json(with_symbol(changed["mines"], mines.find('#'), '.')), opened, '#');
  CHECK(mismatch_of(changed).starts_with("step "));
  changed = first_of("battleship", true);
  const std::string ships = changed["ships"];
  const std::size_t ship = ships.find('#');
  changed["ships"] = with_symbol(Json(with_symbol(changed["ships"], ship, '.')), ships.find('.'), '#');
  CHECK(mismatch_of(changed).starts_with("step "));
}

TEST_CASE("which arm a recorded pull took shows in success alone, and only in the second half of the episode") {
  Json episode = first_of("multiarmed_bandit", true);
  const std::vector<double> probabilities = episode["probabilities"];
  const auto worst = std::ranges::min_element(probabilities) - probabilities.begin();
  Json& actions = episode["actions"];
  for (std::size_t step = 0; step < actions.size() / 2; ++step) actions[step] = worst;
  CHECK(mismatch_of(episode) == "");
  for (Json& action : actions) action = worst;
  CHECK(mismatch_of(episode).starts_with(at_step(actions.size(), "success")));
}

TEST_CASE("a malformed episode of these games is refused with what is wrong") {
  for (const std::string& task : kTasks) {
    CAPTURE(task);
    const Json episode = first_of(task, false);
    check_fields(episode, {"env", "size", "seed"});
    Json changed = episode;
    changed["actions"][0] = -1;
    CHECK(error_of(changed).starts_with("it, line 1: 'actions' is -1; it takes integers 0.."));
    changed = episode;
    changed["length"] = 1'000'001;
    CHECK(error_of(changed).starts_with("it, line 1: 'length' is 1000001; it takes an integer 1.."));
    changed = episode;
    changed["reward_values"] = Json::array();
    CHECK(error_of(changed) == "it, line 1: 'reward_values' is []; it takes 1 to 4 numbers");
    changed["reward_values"] = {1, 2, 3, 4, 5};
    CHECK(error_of(changed) == "it, line 1: 'reward_values' is [1,2,3,4,5]; it takes 1 to 4 numbers");
    changed["reward_values"] = {0.5};
    CHECK(error_of(changed).ends_with("; it takes one of 0"));
    changed["rewards"] = std::string(episode["length"].get<std::size_t>(), '0');
    changed["reward_values"] = {"x"};
    CHECK(error_of(changed) == "it, line 1: 'reward_values' is \"x\"; it takes a number");
    changed = episode;
    changed["end"] = "lost";
    CHECK(error_of(changed) == "it, line 1: 'end' is \"lost\"; it takes terminated or truncated");
  }
  const auto with = [](const std::string& task, const char* const field, Json value) {
    Json changed = first_of(task, true);
    changed[field] = std::move(value);
    return error_of(changed);
  };
  CHECK(with("concentration", "num_decks", 3) == "it, line 1: 'num_decks' is 3; it takes an integer 1..2");
  CHECK(with("concentration", "kind", "suits") == "it, line 1: 'kind' is \"suits\"; it takes colours or ranks");
  CHECK(with("concentration", "cards", std::string(52, '0')) ==
        "it, line 1: 'cards' holds 52 times '0'; the decks hold 26");
  for (const Json& row : {Json{0}, Json{52, 0}, Json{0, 3}, Json{-1, 0}, Json{0, 0.5}, Json("0")}) {
    Json changed = first_of("concentration", true);
    changed["obs"][7] = row;
    CHECK(error_of(changed) ==
          "it, line 1: 'obs' is " + row.dump() + "; it takes pairs of a card 0..51 and what it shows, 0..2");
  }
  CHECK(with("multiarmed_bandit", "arms", 31) == "it, line 1: 'arms' is 31; it takes an integer 2..30");
  CHECK(with("multiarmed_bandit", "arms", 9) == "it, line 1: 'probabilities' has 10 entries; it takes 9");
  CHECK(with("multiarmed_bandit", "probabilities", {0, 1, 0, 1, 0, 1, 0, 1, 0, 1.5}) ==
        "it, line 1: 'probabilities' is 1.5; it takes numbers 0..1");
  CHECK(with("multiarmed_bandit", "obs", "2").starts_with("it, line 1: 'obs' has 1 characters; it takes "));
  CHECK(with("higher_lower", "num_decks", 4) == "it, line 1: 'num_decks' is 4; it takes an integer 1..3");
  CHECK(with("higher_lower", "cards", std::string(52, '0')) ==
        "it, line 1: 'cards' holds 52 times '0'; the decks hold 4");
  CHECK(with("minesweeper", "side", 9) == "it, line 1: 'side' is 9; it takes an integer 2..8");
  CHECK(with("minesweeper", "mines", std::string(16, '.')) == "it, line 1: 'mines' holds 0 mines; it takes 1..13");
  CHECK(with("minesweeper", "mines", std::string(16, '#')) == "it, line 1: 'mines' holds 16 mines; it takes 1..13");
  CHECK(with("minesweeper", "mines", "xx").starts_with("it, line 1: 'mines' has 2 characters; it takes 16"));
  CHECK(with("battleship", "side", 5) == "it, line 1: 'side' is 5; it takes an integer 6..12");
  CHECK(with("battleship", "ships", std::string(64, '.')) == "it, line 1: 'ships' holds 0 squares; the ships have 12");
  CHECK(with("battleship", "ships", std::string(64, 'x')) ==
        "it, line 1: 'ships' has \"x\" at character 1; it takes one of .#");
}

TEST_CASE("an episode of these games that is cut or flipped is refused or replayed, never more") {
  check_damaged_of(kTasks, [](const std::string& task) { return first_of(task, true); });
}
