// Recorded episodes of POPGym's card games against the rules.
#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "tests/envs/recorded/golden_episodes.h"

using namespace engram;
using namespace engram::testing;

namespace {

const std::string kGolden = golden_file("popgym.jsonl");
const std::vector<std::string> kTasks = {"repeat_first", "repeat_previous", "autoencode", "count_recall"};

Json first_of(const std::string& task, bool success) {
  return first_episode(kGolden, [&](const Json& it) { return it["env"] == task && it["success"] == success; });
}

}  // namespace

TEST_CASE("every golden episode of the card games is matched") { check_all_matched(kGolden); }

TEST_CASE("the golden file has every size of every game, solved and not") {
  std::set<std::string> found;
  for (const Json& episode : golden_episodes(kGolden))
    found.insert(episode["size"].get<std::string>() + (episode["success"].get<bool>() ? " solved" : " not solved"));
  for (const std::string task : {"RepeatFirst", "RepeatPrevious", "Autoencode", "CountRecall"})
    for (const std::string size : {"Easy", "Medium", "Hard"})
      for (const char* const success : {" solved", " not solved"}) CHECK(found.count(task + size + success) == 1);
}

TEST_CASE("any difference from a card game is a mismatch at its step") {
  for (const std::string& task : kTasks) {
    CAPTURE(task);
    const Json episode = first_of(task, true);
    REQUIRE(mismatch_of(episode) == "");
    const std::string observations = episode["obs"];
    const std::size_t length = episode["length"], parts = observations.size() / (length + 1);
    for (const std::size_t step : {std::size_t{0}, length / 2, length}) {
      const std::size_t place = step * parts + parts - 1;
      CHECK(mismatch_of(with_symbol(episode, "obs", place, observations[place] == '0' ? '1' : '0'))
                .starts_with("step " + std::to_string(step) + ": observation\n"));
    }
    Json changed = episode;
    changed["actions"][length - 1] = (episode["actions"][length - 1].get<int>() + 1) % 4;
    CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length - 1) + ": reward\n"));
    CHECK(mismatch_of(with_symbol(episode, "rewards", length - 1, '0'))
              .starts_with("step " + std::to_string(length - 1) + ": reward\n  expected 0\n"));
    changed = episode;
    changed["answer_reward"] = episode["answer_reward"].get<double>() * (1 + 1e-6);
    CHECK(mismatch_of(changed).find(": reward\n") != std::string::npos);
    changed["answer_reward"] = static_cast<double>(episode["answer_reward"].get<float>());
    CHECK(mismatch_of(changed) == "");
    changed = episode;
    changed["success"] = false;
    CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length) + ": success\n"));
    changed = episode;
    changed["length"] = length - 1;
    changed["actions"].erase(0);
    changed["rewards"] = episode["rewards"].get<std::string>().substr(0, length - 1);
    changed["obs"] = observations.substr(0, length * parts);
    CHECK(mismatch_of(changed) != "");
  }
  Json previous = first_of("repeat_previous", true);
  previous["k"] = 5;
  CHECK(mismatch_of(previous).starts_with("step 3: reward\n"));
}

TEST_CASE("a malformed episode of a card game is refused with what is wrong") {
  for (const std::string& task : kTasks) {
    CAPTURE(task);
    const Json episode = first_of(task, false);
    check_fields(episode, {"env", "size", "seed"});
    Json changed = episode;
    changed["actions"][0] = -1;
    CHECK(error_of(changed).starts_with("it, line 1: 'actions' is -1; it takes integers 0.."));
    changed = episode;
    changed["num_decks"] = 17;
    CHECK(error_of(changed).starts_with("it, line 1: 'num_decks' is 17; it takes an integer 1.."));
    CHECK(error_of(with_symbol(episode, "rewards", 2, 'x')) ==
          "it, line 1: 'rewards' has \"x\" at character 3; it takes one of -0+");
    changed = episode;
    changed["obs"] = "01";
    CHECK(error_of(changed).starts_with("it, line 1: 'obs' has 2 characters; it takes "));
  }
  const Json first = first_of("repeat_first", true);
  CHECK(error_of(with_symbol(first, "cards", 51, '4')) ==
        "it, line 1: 'cards' has \"4\" at character 52; it takes one of 0123");
  Json changed = first;
  changed["cards"] = std::string(52, '0');
  CHECK(error_of(changed) == "it, line 1: 'cards' holds 52 times '0'; the decks hold 13");
  changed = first_of("repeat_previous", true);
  changed["k"] = 52;
  CHECK(error_of(changed) == "it, line 1: 'k' is 52; it takes an integer 1..51");
  changed = first_of("count_recall", true);
  changed["kind"] = "jokers";
  CHECK(error_of(changed) == "it, line 1: 'kind' is \"jokers\"; it takes colours, suits or ranks");
  changed = first_of("count_recall", true);
  changed["actions"][0] = 27;
  CHECK(error_of(changed) == "it, line 1: 'actions' is 27; it takes integers 0..26");
}

TEST_CASE("an episode of a card game that is cut or flipped is refused or replayed, never more") {
  check_damaged_of(kTasks, [](const std::string& task) { return first_of(task, true); });
}
