// Recorded episodes of the endless T-maze against the rules.
#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <set>
#include <string>

#include "tests/envs/recorded/golden_episodes.h"

using namespace engram;
using namespace engram::testing;

namespace {

const std::string kGolden = golden_file("endless_tmaze.jsonl");

// Of five corridors of other lengths, all passed.
Json solved() {
  return first_episode(kGolden, [](const Json& it) {
    return it["success"] == true && it["corridors"].size() == 5 && it["corridors"][0][0] != it["corridors"][1][0];
  });
}

}  // namespace

TEST_CASE("every golden episode of the endless T-maze is matched") { check_all_matched(kGolden); }

TEST_CASE("the golden file of the endless T-maze has every end, and both forms of lengths") {
  std::set<std::string> ends;
  std::set<bool> fixed;
  for (const Json& episode : golden_episodes(kGolden)) {
    ends.insert(episode["end"].get<std::string>() + " " + episode["success"].dump());
    for (const Json& corridor : episode["corridors"]) fixed.insert(corridor[0] == episode["corridor_length"]);
  }
  CHECK(ends == std::set<std::string>{"terminated true", "terminated false", "truncated false"});
  CHECK(fixed.size() == 2);
}

TEST_CASE("any difference from an endless T-maze is a mismatch at its step") {
  const Json episode = solved();
  REQUIRE(mismatch_of(episode) == "");
  const std::size_t length = episode["length"], first = episode["corridors"][0][0];
  const std::string turn = "step " + std::to_string(first);
  Json changed = episode;
  changed["obs"][2][0] = changed["obs"][2][0].get<double>() + 1e-6;
  CHECK(mismatch_of(changed).starts_with("step 2: observation\n"));
  changed = episode;
  changed["corridors"][0][1] = -changed["corridors"][0][1].get<int>();
  CHECK(mismatch_of(changed).starts_with("step 0: observation\n"));
  changed = with_symbol(episode, "actions", first, '0');  // forward at the junction
  CHECK(mismatch_of(changed).starts_with(turn + ": reward\n"));
  changed = episode;
  changed["corridors"][0][0] = first + 1;
  CHECK(mismatch_of(changed).starts_with(turn + ": reward\n"));
  changed = episode;
  changed["end"] = "truncated";
  CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length - 1) + ": end of the episode\n"));
  changed = episode;
  changed["success"] = false;
  CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length) + ": success\n"));
  changed = episode;
  changed["corridors"].erase(4);  // the first stands in for one that is not recorded
  CHECK(mismatch_of(changed) != "");
}

TEST_CASE("a malformed episode of an endless T-maze is refused with what is wrong") {
  const Json episode = solved();
  check_fields(episode, {"env"});
  const std::string takes = "; it takes from 1 to 5 pairs of a length 1..10 and a turn, -1 or 1";
  for (const Json& corridor : {Json{0, 1}, Json{11, 1}, Json{3, 0}, Json{3}, Json{3.5, 1}, Json("left")}) {
    Json changed = episode;
    changed["corridors"][1] = corridor;
    CHECK(error_of(changed) == "it, line 1: 'corridors' is " + corridor.dump() + takes);
  }
  Json changed = episode;
  changed["corridors"] = Json::array();
  CHECK(error_of(changed) == "it, line 1: 'corridors' is []" + takes);
  changed = episode;
  changed["obs"][0] = {1, 2};
  CHECK(error_of(changed) == "it, line 1: 'obs' is [1,2]; it takes three numbers a row");
  changed = with_symbol(episode, "actions", 1, '3');
  CHECK(error_of(changed) == "it, line 1: 'actions' has \"3\" at character 2; it takes one of 012");
  std::mt19937_64 random(1);
  check_damaged(episode.dump(), random);
}
