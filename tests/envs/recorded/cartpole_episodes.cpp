// Recorded episodes of POPGym's cart-poles against the rules.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "envs/registry.h"
#include "tests/envs/recorded/golden_episodes.h"

using namespace engram;
using namespace engram::testing;

namespace {

const std::string kGolden = golden_file("cartpole.jsonl");

Json first_of(const std::string& size, const std::string& end) {
  return first_episode(kGolden, [&](const Json& it) { return it["size"] == size && it["end"] == end; });
}

const Json kNoisy = first_of("NoisyPositionOnlyCartPoleHard", "terminated");

}  // namespace

TEST_CASE("every golden episode of a cart-pole is matched") { check_all_matched(kGolden); }

TEST_CASE(
    "the golden file of cart-poles has every size, with poles that fell, the last step's among them, and that did "
    "not") {
  std::map<std::string, std::set<std::string>> found;
  int clipped = 0;
  for (const Json& episode : golden_episodes(kGolden)) {
    const bool full = episode["length"] == episode["max_steps"];
    found[episode["size"]].insert(episode["end"].get<std::string>() + (full ? " in the last step" : ""));
    CHECK(episode["success"] == (episode["end"] == "truncated"));
    for (const Json& row : episode["obs"]) clipped += row[1].get<float>() == 0.41887903f;
  }
  CHECK(clipped > 0);
  CHECK(found.size() == 9);
  for (const auto& [size, ends] : found) {
    CAPTURE(size);
    CHECK(ends == std::set<std::string>{"terminated", "terminated in the last step", "truncated in the last step"});
  }
  std::set<std::string> presets, named;
  for (const TaskPreset& preset : task_presets())
    if (preset.task == "cartpole") presets.insert(preset.name);
  for (const auto& [original, ours] : {std::pair{"PositionOnlyCartPole", "position_only_cartpole"},
                                       std::pair{"VelocityOnlyCartPole", "velocity_only_cartpole"},
                                       std::pair{"NoisyPositionOnlyCartPole", "noisy_position_only_cartpole"}})
    for (const auto& [size, name] : {std::pair{"Easy", "_easy"}, {"Medium", "_medium"}, {"Hard", "_hard"}}) {
      CHECK(found.count(std::string(original) + size) == 1);
      named.insert(std::string(ours) + name);
    }
  CHECK(presets == named);
}

TEST_CASE("any difference from a cart-pole is a mismatch at its step") {
  REQUIRE(mismatch_of(kNoisy) == "");
  const std::size_t length = kNoisy["length"];
  const auto float_after = [](const Json& number) {
    return std::nextafter(static_cast<float>(number.get<double>()), 10.0f);
  };
  for (const std::size_t step : {std::size_t{0}, length / 2, length})
    for (const char* const field : {"obs", "drawn"}) {
      Json changed = kNoisy;
      Json& number = changed[field][step][0];
      number = number.get<double>() + 1e-3;
      CHECK(mismatch_of(changed).starts_with("step " + std::to_string(step) + ": observation\n"));
    }
  Json changed = kNoisy;
  changed["obs"][length][0] = float_after(kNoisy["obs"][length][0]);
  CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length) + ": observation\n"));
  changed = kNoisy;
  std::string actions = kNoisy["actions"];
  actions[0] = actions[0] == '0' ? '1' : '0';
  changed["actions"] = actions;
  CHECK(mismatch_of(changed).starts_with("step 2: observation\n"));  // by way of the speeds
  changed = kNoisy;
  changed["reward"] = float_after(kNoisy["reward"]);
  CHECK(mismatch_of(changed).starts_with("step 0: reward\n"));
  changed = kNoisy;
  changed["end"] = "truncated";
  CHECK(mismatch_of(changed) ==
        "step " + std::to_string(length - 1) + ": end of the episode\n  expected truncated\n  came     terminated");
  changed = kNoisy;
  changed["success"] = true;
  CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length) + ": success\n"));
  changed = kNoisy;
  changed["start"][1] = changed["start"][1].get<double>() + 1e-4;
  CHECK(mismatch_of(changed).starts_with("step 1: observation\n"));
  changed = kNoisy;
  changed["sees"] = "velocities";
  CHECK(mismatch_of(changed).starts_with("step 1: observation\n"));  // the start shows positions
  changed = kNoisy;
  changed["noise"] = 0;
  CHECK(mismatch_of(changed).starts_with("step 0: observation\n"));

  // Errors grow: nine digits more than are seen of the pole's first speed are seen before the end of a long episode.
  changed = first_of("PositionOnlyCartPoleHard", "truncated");
  REQUIRE(mismatch_of(changed) == "");
  changed["start"][3] = changed["start"][3].get<double>() + 1e-15;
  CHECK(mismatch_of(changed) != "");
}

TEST_CASE("a malformed episode of a cart-pole is refused with what is wrong") {
  check_fields(kNoisy, {"env", "size", "seed"});
  Json changed = kNoisy;
  changed["actions"] = std::string(kNoisy["length"].get<std::size_t>(), '2');
  CHECK(error_of(changed) == "it, line 1: 'actions' has \"2\" at character 1; it takes one of 01");
  changed = kNoisy;
  changed["obs"][0] = {1, 2, 3};
  CHECK(error_of(changed) == "it, line 1: 'obs' is [1,2,3]; it takes two numbers a row");
  changed = kNoisy;
  changed["drawn"].erase(0);
  const std::size_t length = kNoisy["length"];
  CHECK(error_of(changed) ==
        "it, line 1: 'drawn' has " + std::to_string(length) + " entries; it takes " + std::to_string(length + 1));
  changed = kNoisy;
  changed["start"][2] = 1.5;
  CHECK(error_of(changed) == "it, line 1: 'start' is 1.5; it takes numbers -1..1");
  changed = kNoisy;
  changed["length"] = 201;
  CHECK(error_of(changed) == "it, line 1: 'length' is 201; it takes an integer 1..200");
}

TEST_CASE("an episode of a cart-pole that is cut or flipped is refused or replayed, never more") {
  std::mt19937_64 random(1);
  check_damaged(kNoisy.dump(), random);
}
