// Recorded episodes of POPGym's pendulums against the rules.
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

const std::string kGolden = golden_file("pendulum.jsonl");

Json first_of(const std::string& size, bool success) {
  return first_episode(kGolden, [&](const Json& it) { return it["size"] == size && it["success"] == success; });
}

const Json kNoisy = first_of("NoisyPositionOnlyPendulumHard", true);

}  // namespace

TEST_CASE("every golden episode of a pendulum is matched") { check_all_matched(kGolden); }

TEST_CASE(
    "the golden file of pendulums has every size, upright and not, turns, noise that is cut, and strong torques") {
  std::map<std::string, std::set<bool>> found;
  int cut = 0, strong = 0, fast = 0;
  for (const Json& episode : golden_episodes(kGolden)) {
    found[episode["size"]].insert(episode["success"].get<bool>());
    CHECK(episode["length"] == episode["max_steps"]);
    for (const Json& row : episode["obs"]) cut += std::abs(row[0].get<float>()) == 1 && episode["noise"] != 0;
    for (const Json& row : episode["actions"]) strong += std::abs(row[0].get<float>()) > 2;
    float before = 0;
    for (const Json& row : episode["obs"]) {
      fast += row[1].get<float>() * before < 0 && row[0].get<float>() < -0.5f;
      before = row[1].get<float>();
    }
  }
  CHECK(cut > 0);
  CHECK(strong > 0);
  CHECK(fast > 10);
  CHECK(found.size() == 6);
  for (const auto& [size, outcomes] : found) {
    CAPTURE(size);
    CHECK(outcomes.size() == 2);
  }
  std::set<std::string> presets, named;
  for (const TaskPreset& preset : task_presets())
    if (preset.task == "pendulum") presets.insert(preset.name);
  for (const auto& [original, ours] : {std::pair{"PositionOnlyPendulum", "position_only_pendulum"},
                                       std::pair{"NoisyPositionOnlyPendulum", "noisy_position_only_pendulum"}})
    for (const auto& [size, name] : {std::pair{"Easy", "_easy"}, {"Medium", "_medium"}, {"Hard", "_hard"}}) {
      const std::string full = std::string(original) + size, preset = std::string(ours) + name;
      REQUIRE(found.count(full) == 1);
      named.insert(preset);
      const Json episode = first_episode(kGolden, [&](const Json& it) { return it["size"] == full; });
      TaskConfig task = TaskConfig::from_preset(preset);
      CHECK(task.info().max_episode_steps == episode["max_steps"]);
      for (const OptionValue& option : task.values())
        if (option.name == "task.noise") CHECK(std::stod(option.text) == episode["noise"].get<double>());
    }
  CHECK(presets == named);
}

TEST_CASE("any difference from a pendulum is a mismatch at its step") {
  REQUIRE(mismatch_of(kNoisy) == "");
  const std::size_t length = kNoisy["length"];
  const auto float_after = [](const Json& number) {
    return std::nextafter(static_cast<float>(number.get<double>()), 10.0f);
  };
  Json changed = kNoisy;
  for (const std::size_t step : {std::size_t{0}, length / 2, length}) {
    changed = kNoisy;
    changed["obs"][step][1] = float_after(kNoisy["obs"][step][1]);
    CHECK(mismatch_of(changed).starts_with("step " + std::to_string(step) + ": observation\n"));
    changed = kNoisy;
    changed["drawn"][step][1] = changed["drawn"][step][1].get<double>() - 1e-3;
    CHECK(mismatch_of(changed).starts_with("step " + std::to_string(step) + ": observation\n"));
  }
  changed = kNoisy;
  changed["actions"][0][0] = kNoisy["actions"][0][0].get<double>() > 0 ? -2 : 2;
  CHECK(mismatch_of(changed).starts_with("step 1: observation\n"));  // by way of the speed
  changed = kNoisy;
  changed["rewards"][3] = float_after(kNoisy["rewards"][3]);
  CHECK(mismatch_of(changed).starts_with("step 3: reward\n"));
  changed = kNoisy;
  changed["success"] = false;
  CHECK(mismatch_of(changed).starts_with("step " + std::to_string(length) + ": success\n"));
  changed = kNoisy;
  changed["start"][1] = changed["start"][1].get<double>() + 1e-3;
  CHECK(mismatch_of(changed).starts_with("step 0: reward\n"));
  changed = kNoisy;
  changed["noise"] = 0;
  CHECK(mismatch_of(changed).starts_with("step 0: observation\n"));
  changed = kNoisy;
  changed["max_steps"] = length + 1;
  CHECK(mismatch_of(changed) != "");
}

TEST_CASE("a malformed episode of a pendulum is refused with what is wrong") {
  check_fields(kNoisy, {"env", "size", "seed"});
  Json changed = kNoisy;
  changed["actions"][0] = {1, 2};
  CHECK(error_of(changed) == "it, line 1: 'actions' is [1,2]; it takes arrays of 1 numbers");
  changed = kNoisy;
  changed["actions"][0] = 1;
  CHECK(error_of(changed) == "it, line 1: 'actions' is 1; it takes arrays of 1 numbers");
  changed = kNoisy;
  changed["actions"][0] = {"2"};
  CHECK(error_of(changed) == "it, line 1: 'actions' is \"2\"; it takes a number");
  changed = kNoisy;
  changed["start"][0] = 4.5;
  CHECK(error_of(changed) == "it, line 1: 'start' is 4.5; it takes numbers -4..4");
}

TEST_CASE("an episode of a pendulum that is cut or flipped is refused or replayed, never more") {
  std::mt19937_64 random(1);
  check_damaged(kNoisy.dump(), random);
}
