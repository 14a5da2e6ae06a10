// Recorded episodes of POPGym's labyrinths against the rules.
#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "tests/envs/recorded/golden_episodes.h"

using namespace engram;
using namespace engram::testing;

namespace {

const std::string kGolden = golden_file("labyrinth.jsonl");
const std::vector<std::string> kTasks = {"labyrinth_escape", "labyrinth_explore"};

Json solved(const std::string& task) {
  return first_episode(kGolden, [&](const Json& it) { return it["env"] == task && it["success"] == true; });
}

}  // namespace

TEST_CASE("every golden episode of the labyrinths is matched") { check_all_matched(kGolden); }

TEST_CASE("the golden file of the labyrinths has all sizes, solved and cut") {
  std::set<std::string> outcomes;
  for (const Json& episode : golden_episodes(kGolden))
    outcomes.insert(episode["env"].get<std::string>() + " " + std::to_string(episode["grid"].size()) + " " +
                    episode["end"].get<std::string>() + " " + episode["success"].dump());
  std::set<std::string> expected;
  for (const std::string& task : kTasks)
    for (const char* const side : {"11", "15", "19"})
      for (const char* const outcome : {"terminated true", "truncated false"})
        expected.insert(task + " " + side + " " + outcome);
  CHECK(outcomes == expected);
}

TEST_CASE("any difference from a labyrinth is a mismatch at its step") {
  for (const std::string& task : kTasks) {
    CAPTURE(task);
    const Json episode = solved(task);
    REQUIRE(mismatch_of(episode) == "");
    const std::size_t length = episode["length"];
    Json changed = episode;
    for (const std::size_t part : {std::size_t{0}, std::size_t{8}, std::size_t{9}}) {
      changed = episode;
      changed["obs"][3] =
          with_symbol(episode["obs"][3], part, episode["obs"][3].get<std::string>()[part] == '3' ? '2' : '3');
      CHECK(mismatch_of(changed).starts_with("step 3: observation\n"));
    }
    changed = episode;
    changed["actions"][length - 1] = (episode["actions"][length - 1].get<int>() + 1) % 4;
    CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length - 1) + ": reward\n"));
    changed = episode;
    changed["episode_length"] = 2048;
    CHECK(mismatch_of(changed).find(": reward\n") != std::string::npos);
    changed = episode;
    changed["end"] = "truncated";
    CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length - 1) + ": end of the episode\n"));
    changed = episode;
    changed["success"] = false;
    CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length) + ": success\n"));
  }
}

TEST_CASE("a malformed episode of a labyrinth is refused with what is wrong") {
  for (const std::string& task : kTasks) {
    CAPTURE(task);
    const Json episode = solved(task);
    check_fields(episode, {"env", "size", "seed"});
    const std::string takes =
        "; it takes an odd number of rows, 5..19, of as many digits 0..3, with one start in an outer wall and " +
        std::string(task == "labyrinth_escape" ? "one" : "no") + " goal";
    Json changed = episode;
    changed["grid"].erase(0);
    CHECK(error_of(changed).ends_with(takes));
    changed = episode;
    changed["grid"][4] = "10401010101";
    CHECK(error_of(changed) == "it, line 1: 'grid' is \"10401010101\"" + takes);
    changed["grid"][4] = "10001";
    CHECK(error_of(changed) == "it, line 1: 'grid' is \"10001\"" + takes);
    changed["grid"][4] = "23310101012";
    CHECK(error_of(changed).ends_with(takes));
    changed = episode;
    changed["obs"][0] = "12";
    CHECK(error_of(changed) == "it, line 1: 'obs' is \"12\"; it takes texts of 10 digits 0..4");
  }
  check_damaged_of(kTasks, solved);
}
