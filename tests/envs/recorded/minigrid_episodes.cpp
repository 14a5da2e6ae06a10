// Recorded episodes of MiniGrid's tasks against the rules.
#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "tests/envs/recorded/golden_episodes.h"

using namespace engram;
using namespace engram::testing;

namespace {

const std::string kGolden = golden_file("minigrid.jsonl");
const std::vector<std::string> kTasks = {"minigrid_memory", "red_blue_doors", "door_key"};

Json first_of(const std::string& task, const std::string& end, bool success) {
  return first_episode(
      kGolden, [&](const Json& it) { return it["env"] == task && it["end"] == end && it["success"] == success; });
}

}  // namespace

TEST_CASE("every golden episode of MiniGrid's tasks is matched") { check_all_matched(kGolden); }

TEST_CASE("the golden file of MiniGrid has every size, solved and not, and episodes cut at the last step") {
  std::set<std::string> found, cut;
  for (const Json& episode : golden_episodes(kGolden)) {
    const std::string name = episode["name"];
    found.insert(name + (episode["success"].get<bool>() ? " solved" : " not solved"));
    if (episode["end"] == "truncated") cut.insert(episode["env"].get<std::string>());
  }
  for (const char* const name :
       {"MemoryS7", "MemoryS9", "MemoryS11", "MemoryS13", "MemoryS13Random", "MemoryS17Random", "RedBlueDoors-6x6",
        "RedBlueDoors-8x8", "DoorKey-5x5", "DoorKey-6x6", "DoorKey-8x8", "DoorKey-16x16"})
    for (const char* const success : {" solved", " not solved"})
      CHECK(found.count("MiniGrid-" + std::string(name) + "-v0" + success) == 1);
  for (const std::string& task : kTasks) CHECK(cut.count(task) == 1);
}

TEST_CASE("any difference from an episode of MiniGrid is a mismatch at its step") {
  for (const std::string& task : kTasks)
    for (const char* const end : {"terminated", "truncated"}) {
      CAPTURE(task);
      const Json episode = first_of(task, end, std::string(end) == "terminated");
      REQUIRE(mismatch_of(episode) == "");
      const std::size_t length = episode["length"];
      const std::string last = "step " + std::to_string(length - 1);
      for (const std::size_t step : {std::size_t{0}, length / 2, length}) {
        Json changed = episode;
        std::string view = episode["views"][episode["obs"][step].get<std::size_t>()];
        view[45 - 7] = view[45 - 7] == '#' ? '.' : '#';  // the cell in front
        changed["views"].push_back(view);
        changed["obs"][step] = changed["views"].size() - 1;
        CHECK(mismatch_of(changed).starts_with("step " + std::to_string(step) + ": observation\n"));
      }
      Json changed = episode;
      changed["last_reward"] = episode["last_reward"].get<double>() + 1e-6;
      CHECK(mismatch_of(changed).starts_with(last + ": reward\n"));
      changed = episode;
      changed["end"] = std::string(end) == "truncated" ? "terminated" : "truncated";
      CHECK(mismatch_of(changed) ==
            last + ": end of the episode\n  expected " + changed["end"].get<std::string>() + "\n  came     " + end);
      changed = episode;
      changed["success"] = !episode["success"].get<bool>();
      CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length) + ": success\n"));
      changed = episode;
      changed["length"] = length - 1;
      changed["actions"] = episode["actions"].get<std::string>().substr(0, length - 1);
      changed["obs"].erase(length);
      CHECK(mismatch_of(changed) != "");
    }
  const Json memory = first_of("minigrid_memory", "terminated", true);
  for (const char* const field : {"object", "upper"}) {
    Json changed = memory;
    changed[field] = memory[field] == "key" ? "ball" : "key";
    CHECK(mismatch_of(changed) != "");
  }
  Json changed = memory;
  changed["x"] = memory["x"] == 1 ? 2 : 1;
  CHECK(mismatch_of(changed).starts_with("step 0: observation\n"));
  changed = memory;
  changed["size"] = memory["size"].get<int>() + 2;
  CHECK(mismatch_of(changed) != "");
  const Json doors = first_of("red_blue_doors", "terminated", true);
  for (const char* const field : {"red_y", "blue_y"}) {
    changed = doors;
    changed[field] = doors[field] == 1 ? 2 : 1;
    CHECK(mismatch_of(changed) != "");
  }
  changed = doors;
  changed["agent"][2] = (doors["agent"][2].get<int>() + 1) % 4;
  CHECK(mismatch_of(changed).starts_with("step 0: observation\n"));
  const Json door_key = first_of("door_key", "terminated", true);
  changed = door_key;
  changed["door_y"] = door_key["door_y"] == 1 ? 2 : 1;
  CHECK(mismatch_of(changed) != "");
}

TEST_CASE("a malformed episode of MiniGrid is refused with what is wrong") {
  for (const std::string& task : kTasks) {
    CAPTURE(task);
    const Json episode = first_of(task, "terminated", true);
    check_fields(episode, {"env", "name", "seed"});
    Json changed = episode;
    changed["actions"] = std::string(episode["length"].get<std::size_t>(), '7');
    CHECK(error_of(changed) == "it, line 1: 'actions' has \"7\" at character 1; it takes one of 0123456");
    changed = episode;
    changed["obs"][0] = episode["views"].size();
    CHECK(
        error_of(changed).starts_with("it, line 1: 'obs' is " + changed["obs"][0].dump() + "; it takes integers 0.."));
    changed = episode;
    changed["views"][0] = std::string(49, 'x');
    CHECK(error_of(changed).starts_with("it, line 1: 'views' is "));
    changed["views"][0] = std::string(48, '.');
    CHECK(error_of(changed).starts_with("it, line 1: 'views' is "));
    changed["views"] = Json::array();
    CHECK(error_of(changed) == "it, line 1: 'views' is []; it takes an array of texts");
  }
  Json changed = first_of("minigrid_memory", "terminated", true);
  changed["size"] = 8;
  CHECK(error_of(changed) == "it, line 1: 'size' is 8; it takes an odd number");
  changed["size"] = 7;
  changed["hall_end"] = 5;
  CHECK(error_of(changed) == "it, line 1: 'hall_end' is 5; it takes an integer 4..4");
  changed = first_of("red_blue_doors", "terminated", true);
  changed["agent"] = {3, 1, 0};
  CHECK(error_of(changed) == "it, line 1: 'agent' is [3,1,0]; it takes a cell within the room and a direction");
  changed["agent"] = {4, 1, 4};
  CHECK(error_of(changed) == "it, line 1: 'agent' is [4,1,4]; it takes integers 0..7, 0..4, 0..3");
  changed = first_of("door_key", "terminated", true);
  changed["key"] = {changed["agent"][0], changed["agent"][1]};
  CHECK(error_of(changed) ==
        "it, line 1: 'key' is " + changed["key"].dump() + "; it takes a free cell to the left of the wall");
  changed["wall_x"] = 3;
  CHECK(error_of(changed) == "it, line 1: 'wall_x' is 3; it takes an integer 2..2");
}

TEST_CASE("an episode of MiniGrid that is cut or flipped is refused or replayed, never more") {
  check_damaged_of(kTasks, [](const std::string& task) { return first_of(task, "terminated", true); });
}
