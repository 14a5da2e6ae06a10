// Recorded episodes of bsuite's chains against the rules.
#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "envs/registry.h"
#include "tests/envs/recorded/golden_episodes.h"

using namespace engram;
using namespace engram::testing;

namespace {

const std::string kGolden = golden_file("bsuite.jsonl");
const std::vector<std::string> kTasks = {"memory_chain", "umbrella_chain"};

// Of at least 10 steps.
Json first_of(const std::string& task, bool success) {
  return first_episode(
      kGolden, [&](const Json& it) { return it["env"] == task && it["success"] == success && it["length"] >= 10; });
}

}  // namespace

TEST_CASE("every golden episode of bsuite's chains is matched") { check_all_matched(kGolden); }

TEST_CASE("the golden file of bsuite has every number of the sweeps, and all of them solved and not") {
  std::set<std::string> sizes, outcomes;
  for (const Json& episode : golden_episodes(kGolden)) {
    const std::string experiment = episode["experiment"];
    const char* const field = experiment == "memory_len"    ? "memory_length"
                              : experiment == "memory_size" ? "bits"
                                                            : "chain_length";
    sizes.insert(experiment + " " + episode[field].dump());
    outcomes.insert(experiment + " " + episode[field].dump() + " " + episode["success"].dump());
    if (experiment == "umbrella_length") CHECK(episode["distractors"] == 20);
    if (experiment == "memory_size") CHECK(episode["memory_length"] == 2);
    if (experiment == "memory_len") CHECK(episode["bits"] == 1);
  }
  CHECK(sizes.size() == 23 + 17 + 23);
  CHECK(outcomes.size() == 2 * sizes.size());
  for (const TaskPreset& preset : task_presets()) {
    if (preset.task != "memory_chain" && preset.task != "umbrella_chain") continue;
    std::string name = preset.name;
    name[name.rfind('_')] = ' ';
    CHECK(sizes.count(name) == 1);
    sizes.erase(name);
  }
  CHECK(sizes.empty());
}

TEST_CASE("any difference from a chain is a mismatch at its step") {
  for (const std::string& task : kTasks) {
    CAPTURE(task);
    const Json episode = first_of(task, true);
    REQUIRE(mismatch_of(episode) == "");
    const std::size_t length = episode["length"];
    const std::string last = "step " + std::to_string(length - 1);
    for (const std::size_t step : {std::size_t{0}, length / 2, length}) {
      Json changed = episode;
      Json& time = changed["obs"][step][task == "memory_chain" ? 0 : 1];
      time = time.get<double>() + 1e-6;
      CHECK(mismatch_of(changed).starts_with("step " + std::to_string(step) + ": observation\n"));
      changed = episode;
      if (task == "memory_chain")
        changed["obs"][step][2] = changed["obs"][step][2].get<double>() == 0 ? 1 : 0;
      else
        changed["obs"][step][0] = changed["obs"][step][0] == "00" ? "10" : "00";
      CHECK(mismatch_of(changed) != "");
    }
    Json changed = episode;
    changed["success"] = false;
    CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length) + ": success\n"));
    changed = episode;
    std::string actions = episode["actions"];
    char& decisive = task == "memory_chain" ? actions.back() : actions.front();
    decisive = decisive == '0' ? '1' : '0';
    changed["actions"] = actions;
    CHECK(mismatch_of(changed).starts_with(task == "memory_chain" ? last + ": reward\n" : "step 1: observation\n"));
    changed = episode;
    changed[task == "memory_chain" ? "memory_length" : "chain_length"] = length;
    if (task == "memory_chain") CHECK(mismatch_of(changed) != "");
    changed[task == "memory_chain" ? "memory_length" : "chain_length"] = length + 1;
    CHECK(mismatch_of(changed) != "");
  }
  Json changed = first_of("memory_chain", true);
  changed["context"] = changed["context"] == "1" ? "0" : "1";
  CHECK(mismatch_of(changed).starts_with("step 0: observation\n"));
  changed = first_of("umbrella_chain", true);
  std::string rewards = changed["rewards"];
  rewards.back() = '-';
  changed["rewards"] = rewards;
  CHECK(mismatch_of(changed).find(": reward\n  expected -1\n  came     1") != std::string::npos);
}

TEST_CASE("a malformed episode of a chain is refused with what is wrong") {
  for (const std::string& task : kTasks) {
    CAPTURE(task);
    const Json episode = first_of(task, true);
    check_fields(episode, {"env", "experiment"});
    Json changed = episode;
    changed["actions"] = std::string(episode["length"].get<std::size_t>(), '2');
    CHECK(error_of(changed) == "it, line 1: 'actions' has \"2\" at character 1; it takes one of 01");
    changed = episode;
    changed["obs"][0] = {1, 2};
    CHECK(error_of(changed) ==
          "it, line 1: 'obs' is [1,2]; it takes " +
              std::string(task == "memory_chain" ? "3 numbers a row" : "two bits, a number and the random bits"));
  }
  Json changed = first_of("memory_chain", true);
  changed["query"] = 1;
  CHECK(error_of(changed) == "it, line 1: 'query' is 1; it takes an integer 0..0");
  changed["query"] = 0;
  changed["context"] = "2";
  CHECK(error_of(changed) == "it, line 1: 'context' is \"2\"; it takes a text of 1 characters 0 and 1");
  changed = first_of("umbrella_chain", true);
  changed["obs"][3][2] = "01";
  CHECK(error_of(changed) == "it, line 1: 'obs' is \"01\"; it takes a text of 20 characters 0 and 1");
}

TEST_CASE("an episode of a chain that is cut or flipped is refused or replayed, never more") {
  check_damaged_of(kTasks, [](const std::string& task) { return first_of(task, true); });
}
