// Recorded episodes of Memory Gym's mortar mayhem and mystery path against the rules.
#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "tests/envs/recorded/golden_episodes.h"

using namespace engram;
using namespace engram::testing;

namespace {

const std::string kGolden = golden_file("memory_gym.jsonl");

Json mortar(const std::string& form) {
  return first_episode(kGolden, [&](const Json& it) {
    return it["env"] == "mortar_mayhem" && it["form"] == form && it["success"] == true;
  });
}
// Of a player who falls, and reaches the goal.
Json path(bool endless) {
  return first_episode(kGolden, [&](const Json& it) {
    if (it["env"] != "mystery_path" || it["endless"] != endless || it["success"] == false) return false;
    for (const Json& row : it["obs"])
      if (row[3] == 1) return true;
    return false;
  });
}

Json with(Json episode, const std::string& field, const Json& value) {
  episode[field] = value;
  return episode;
}

}  // namespace

TEST_CASE("every golden episode of Memory Gym is matched") { check_all_matched(kGolden); }

TEST_CASE("the golden file of Memory Gym has every form and every end") {
  std::map<std::string, std::set<std::string>> ends;
  for (const Json& it : golden_episodes(kGolden))
    ends[it["env"] == "mortar_mayhem" ? it["form"].get<std::string>()
         : it["endless"] == true      ? "endless path"
                                      : "path"]
        .insert(it["end"].get<std::string>() + " " + it["success"].dump());
  const std::set<std::string> solved_or_not = {"terminated true", "terminated false"};
  CHECK(ends == std::map<std::string, std::set<std::string>>{
                    {"sequence", solved_or_not},
                    {"act", solved_or_not},
                    {"endless", {"truncated true", "terminated false"}},
                    {"path", {"terminated true", "truncated false"}},
                    {"endless path", {"truncated true", "terminated false", "truncated false"}}});
}

TEST_CASE("any difference from an episode of mortar mayhem is a mismatch at its step") {
  for (const char* const form : {"sequence", "act", "endless"}) {
    CAPTURE(form);
    const Json episode = mortar(form);
    REQUIRE(mismatch_of(episode) == "");
    const std::size_t length = episode["length"];
    Json changed = episode;
    changed["obs"][1] = with_symbol(changed["obs"][1], 3, changed["obs"][1].get<std::string>()[3] == '0' ? '1' : '0');
    CHECK(mismatch_of(changed).starts_with("step 1: observation\n"));
    CHECK(mismatch_of(with(episode, "explosion_delay", episode["explosion_delay"].get<int>() + 1)) != "");
    CHECK(mismatch_of(with(episode, "explosion_duration", episode["explosion_duration"].get<int>() + 1)) != "");
    CHECK(mismatch_of(with(episode, "command_reward", 0.25)).find(": reward\n") != std::string::npos);
    if (std::string(form) != "act")
      CHECK(mismatch_of(with(episode, "show_duration", episode["show_duration"].get<int>() + 1)) != "");
    CHECK(mismatch_of(with(episode, "end", episode["end"] == "truncated" ? "terminated" : "truncated"))
              .starts_with("step " + std::to_string(length - 1) + ": end of the episode\n"));
    CHECK(mismatch_of(with(episode, "success", false)).starts_with("step " + std::to_string(length) + ": success\n"));
  }
}

TEST_CASE("any difference from an episode of mystery path is a mismatch at its step") {
  for (const bool endless : {false, true}) {
    CAPTURE(endless);
    const Json episode = path(endless);
    REQUIRE(mismatch_of(episode) == "");
    const std::size_t length = episode["length"];
    Json changed = episode;
    changed["obs"][1][2] = (changed["obs"][1][2].get<int>() + 1) % 4;
    CHECK(mismatch_of(changed).starts_with("step 1: observation\n"));
    CHECK(mismatch_of(with(episode, "fall_reward", -1)).find(": reward\n") != std::string::npos);
    CHECK(
        mismatch_of(with(episode, "goal_reward", 7)).starts_with("step " + std::to_string(length - 1) + ": reward\n"));
    CHECK(mismatch_of(with(episode, "end", episode["end"] == "truncated" ? "terminated" : "truncated"))
              .starts_with("step " + std::to_string(length - 1) + ": end of the episode\n"));
    CHECK(mismatch_of(with(episode, "success", false)).starts_with("step " + std::to_string(length) + ": success\n"));
    if (endless) CHECK(mismatch_of(with(episode, "stamina", 3)) != "");
  }
}

TEST_CASE("a malformed episode of Memory Gym is refused with what is wrong") {
  for (const Json& episode : {mortar("sequence"), mortar("endless"), path(false), path(true)})
    check_fields(episode, {"env", "draws"});
  const Json sequence = mortar("sequence"), plain = path(false), endless = path(true);
  CHECK(error_of(with(sequence, "start", Json{5, 0})) ==
        "it, line 1: 'start' is [5,0]; it takes arrays of integers up to 4 4");
  CHECK(error_of(with(sequence, "start", Json{0})) != "");
  CHECK(error_of(with(sequence, "commands", "")) == "it, line 1: 'commands' is \"\"; it takes 1 to 64 digits");
  CHECK(error_of(with(sequence, "commands", std::string(8, '0'))) ==
        "it, line 1: 'commands' is \"00000000\"; it takes commands that do not leave the arena");
  CHECK(error_of(with_symbol(sequence, "commands", 1, '5')) ==
        "it, line 1: 'commands' has \"5\" at character 2; it takes one of 01234");
  CHECK(error_of(with_symbol(sequence, "actions", 1, '4')) ==
        "it, line 1: 'actions' has \"4\" at character 2; it takes one of 0123");
  for (const char* const seen : {"511000", "51100", "05100", "01140", "01102", ""}) {
    Json changed = sequence;
    changed["obs"][0] = seen;
    CHECK(error_of(changed) == "it, line 1: 'obs' is \"" + std::string(seen) +
                                   "\"; it takes texts of a command or -, x, y, a direction 0..3, and 0 or 1");
  }
  CHECK(error_of(with(plain, "path", Json::array())) ==
        "it, line 1: 'path' is []; it takes two or more cells of the board, each beside the one before, none twice");
  Json changed = plain;
  changed["path"][1] = plain["path"][0];
  CHECK(error_of(changed) != "");
  changed = plain;
  changed["path"][1] = Json{7, 0};
  CHECK(error_of(changed) == "it, line 1: 'path' is [7,0]; it takes arrays of integers up to 6 6");
  changed = endless;
  changed["path"].erase(changed["path"].size() - 1);
  CHECK(error_of(changed).ends_with("none twice, from the first column to the last"));
  changed = endless;
  changed["path"].erase(0);
  CHECK(error_of(changed).ends_with("none twice, from the first column to the last"));
  changed = plain;
  changed["obs"][0][3] = 2;
  CHECK(error_of(changed).ends_with("it takes arrays of integers up to 6 6 3 1"));
  check_damaged_of({"sequence", "act", "endless"}, mortar);
  check_damaged_of({"path", "endless path"}, [](const std::string& name) { return path(name != "path"); });
}
