#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "apps/play/keys.h"
#include "base/error.h"
#include "envs/registry.h"

using namespace engram;

namespace {

std::vector<Key> keys_of(const std::string& bytes) {
  KeyReader reader;
  std::vector<Key> keys;
  for (const char byte : bytes)
    if (const auto key = reader.take(byte)) keys.push_back(*key);
  return keys;
}

// The keys that a word of ActionKeys stands for.
std::vector<Key> typed(const std::string& word) {
  if (word == "up" || word == "down" || word == "left" || word == "right") return {word};
  std::vector<Key> keys;
  for (const char character : word) keys.emplace_back(1, character);
  return keys;
}

void check_unambiguous(const TaskInfo& info) {
  CAPTURE(info.name);
  ActionKeys keys(info.action.names);
  std::set<std::vector<Key>> words;
  for (int action = 0; action < info.num_actions(); ++action) {
    CHECK_FALSE(keys.words_of(action).empty());
    for (const std::string& word : keys.words_of(action)) {
      const std::vector<Key> sequence = typed(word);
      CHECK(words.insert(sequence).second);  // of no other action
      CHECK(sequence[0] != Key(1, kQuitKey));
      CHECK(sequence[0] != Key(1, kNextKey));
      for (std::size_t i = 0; i < sequence.size(); ++i) {
        const auto taken = keys.take(sequence[i]);
        CHECK(taken.has_value() == (i + 1 == sequence.size()));  // no other action's keys begin these
        if (taken) CHECK(*taken == action);
        CHECK(keys.problem().empty());
      }
    }
  }
  std::string shown;
  for (const std::string& line : keys.legend()) shown += line + "\n";
  for (int action = 0; action < info.num_actions(); ++action) {
    const std::string& name = info.action.names[static_cast<std::size_t>(action)];
    if (name != std::to_string(action))
      CHECK(shown.find(keys.words_of(action)[0]) != std::string::npos);
    else
      CHECK(shown.find("to " + keys.words_of(info.num_actions() - 1)[0] + ": that number") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("the keys of every task and of all its sizes are unambiguous and shown") {
  const auto check = [](const TaskInfo& info) {
    if (!info.action.continuous()) check_unambiguous(info);
  };
  for (const std::string& name : task_names()) check(TaskConfig(name).info());
  for (const TaskPreset& preset : task_presets()) check(TaskConfig::from_preset(preset.name).info());
}

TEST_CASE("actions that are directions have the arrow keys and those of vi") {
  const ActionKeys compass({"north", "south", "west", "east"});
  CHECK(compass.legend() == std::vector<std::string>{"up/k: north", "down/j: south", "left/h: west", "right/l: east"});
  const ActionKeys axes({"+x", "+y", "-x", "-y"});
  CHECK(axes.legend() == std::vector<std::string>{"right/l: +x", "up/k: +y", "left/h: -x", "down/j: -y"});
  const ActionKeys turns({"left", "right", "forward", "pickup", "drop", "toggle", "done"});
  CHECK(turns.legend() == std::vector<std::string>{"left/h: left", "right/l: right", "up/k: forward", "p: pickup",
                                                   "d: drop", "t: toggle", "o: done"});
  // One of two sides is no direction.
  CHECK(ActionKeys({"left", "stay"}).legend() == std::vector<std::string>{"l: left", "s: stay"});
}

TEST_CASE("other actions have letters of their names, or their numbers") {
  CHECK(ActionKeys({"spades", "diamonds", "clubs", "hearts"}).legend() ==
        std::vector<std::string>{"s: spades", "d: diamonds", "c: clubs", "h: hearts"});
  CHECK(ActionKeys({"queen", "run", "q", "r"}).legend() ==
        std::vector<std::string>{"u: queen", "n: run", "a: q", "b: r"});
  CHECK(ActionKeys({"-1", "+1"}).legend() == std::vector<std::string>{"0: -1", "1: +1"});
  std::vector<std::string> numbers;
  for (int i = 0; i < 101; ++i) numbers.push_back(std::to_string(i));
  ActionKeys keys(numbers);
  CHECK(keys.legend() == std::vector<std::string>{"000 to 100: that number"});
  CHECK_FALSE(keys.take("0"));
  CHECK_FALSE(keys.take("9"));
  CHECK(keys.pending() == "09");
  CHECK(keys.take("7") == 97);
  for (const char* const key : {"1", "0", "1"}) CHECK_FALSE(keys.take(key));
  CHECK(keys.problem() == "'101' does nothing");
  CHECK_FALSE(keys.take("1"));
  CHECK_FALSE(keys.take("x"));
  CHECK(keys.problem() == "'x' does nothing");
  CHECK(keys.pending() == "");
}

TEST_CASE("bytes of a terminal are keys, arrows in all their forms, and what is unknown is one key") {
  CHECK(keys_of("aq7") == std::vector<Key>{"a", "q", "7"});
  CHECK(keys_of("\033[A\033[B\033[C\033[D") == std::vector<Key>{"up", "down", "right", "left"});
  CHECK(keys_of("\033OA\033OD") == std::vector<Key>{"up", "left"});
  CHECK(keys_of("\033[1;2Cx") == std::vector<Key>{"right", "x"});
  CHECK(keys_of("\033[3~\033[15~x") == std::vector<Key>{"", "", "x"});
  CHECK(keys_of("\033x\033\033[A") == std::vector<Key>{"x", "up"});
  CHECK(keys_of("\033[" + std::string(1000, '1') + "x").back() == "x");
}
