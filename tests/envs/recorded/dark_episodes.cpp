// Recorded episodes of AMAGO's dark key-to-door against the rules.
#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <set>
#include <string>

#include "tests/envs/recorded/golden_episodes.h"

using namespace engram;
using namespace engram::testing;

namespace {

const std::string kGolden = golden_file("dark_key_to_door.jsonl");

const Json& solved() {
  static const Json episode = first_episode(
      kGolden, [](const Json& it) { return it["success"] == true && it["directions"] != "01234" && it["size"] == 3; });
  return episode;
}

}  // namespace

TEST_CASE("every golden episode of dark key-to-door is matched") { check_all_matched(kGolden); }

TEST_CASE("the golden file of dark key-to-door has rooms lit and dark, shuffled actions, attempts cut and short") {
  int lit = 0, shuffled = 0, not_solved = 0, middle = 0;
  std::set<int> sizes;
  for (const Json& episode : golden_episodes(kGolden)) {
    sizes.insert(episode["size"].get<int>());
    lit += episode["full_state"] == true;
    shuffled += episode["directions"] != "01234";
    not_solved += episode["success"] == false && episode["rewards"].get<std::string>().find("1") != std::string::npos;
    middle += episode["size"] == 4 && episode["full_state"] == false && episode["start"] == Json{2, 2};
  }
  CHECK(sizes == std::set<int>{2, 3, 4, 5, 8, 9});
  CHECK(lit == 6);
  CHECK(shuffled == 9);
  CHECK(not_solved >= 10);
  CHECK(middle == 6);
}

TEST_CASE("any difference from a dark room is a mismatch at its step") {
  REQUIRE(mismatch_of(solved()) == "");
  const std::size_t length = solved()["length"];
  for (const std::size_t step : {std::size_t{0}, length / 2, length})
    for (const std::size_t element : {0, 1, 2, 3}) {
      Json changed = solved();
      Json& number = changed["obs"][step][element];
      number = number.get<double>() + 1e-6;
      CHECK(mismatch_of(changed).starts_with("step " + std::to_string(step) + ": observation\n"));
    }
  Json changed = solved();
  std::string rewards = solved()["rewards"];
  const std::size_t paid = rewards.find('1');
  rewards[paid] = '0';
  changed["rewards"] = rewards;
  CHECK(mismatch_of(changed) == "step " + std::to_string(paid) + ": reward\n  expected 0\n  came     1");
  changed = solved();
  changed["success"] = false;
  CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length) + ": success\n"));
  changed = solved();
  changed["steps"] = length + 1;
  CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length - 1) + ": end of the episode\n"));
  changed = solved();
  std::swap(changed["key"], changed["door"]);
  CHECK(mismatch_of(changed) != "");
  changed = solved();
  changed["directions"] = "01234";
  CHECK(mismatch_of(changed) != "");
  changed = solved();
  changed["attempt_steps"] = 13;
  CHECK(mismatch_of(changed).starts_with("step 1: observation\n"));
}

TEST_CASE("a malformed episode of a dark room is refused with what is wrong") {
  check_fields(solved(), {"env", "seed"});
  Json changed = solved();
  changed["start"] = {3, 0};
  CHECK(error_of(changed) == "it, line 1: 'start' is 3; it takes integers 0..2");
  changed = solved();
  changed["directions"] = "01233";
  CHECK(error_of(changed) == "it, line 1: 'directions' is \"01233\"; it takes the digits 0 to 4, each once");
  changed = solved();
  changed["full_state"] = true;
  CHECK(error_of(changed).ends_with("it takes 8 numbers a row"));
  changed = solved();
  changed["length"] = 91;
  CHECK(error_of(changed) == "it, line 1: 'length' is 91; it takes an integer 1..90");
  changed = solved();
  changed["size"] = 65;
  CHECK(error_of(changed) == "it, line 1: 'size' is 65; it takes an integer 2..64");
}

TEST_CASE("an episode of a dark room that is cut or flipped is refused or replayed, never more") {
  std::mt19937_64 random(1);
  check_damaged(solved().dump(), random);
}
