// What tasks call the decision of an episode.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/envs/single_env.h"

using namespace engram;
using namespace engram::testing;

namespace {

struct Count {
  int undecided = 0, right = 0, wrong = 0;
};

// Random episodes; `expected` says after each step whether the decision is taken.
Count play(VecEnv& environment, int episodes, const std::function<bool(const VecEnv&)>& expected) {
  Rng random(5, Purpose::kTest, 0, 0);
  Count count;
  for (int episode = 0; episode < episodes; ++episode) {
    environment.reset_all(static_cast<std::uint32_t>(episode));
    CHECK(environment.decided(0) == false);
    bool before = false;
    while (environment.end_N()[0] == End::kNone) {
      const auto action =
          static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(environment.info().num_actions())));
      environment.step(std::vector<std::int32_t>{action});
      REQUIRE(environment.decided(0).has_value());
      const bool now = *environment.decided(0);
      CHECK(now == expected(environment));
      CHECK((now || !before));  // it stays
      CHECK((now || environment.success_N()[0] == 0));
      before = now;
    }
    ++(!before ? count.undecided : environment.success_N()[0] != 0 ? count.right : count.wrong);
  }
  return count;
}

}  // namespace

TEST_CASE("visual match: the decision is a square, after which all are gone") {
  const auto environment =
      single_env("visual_match", {{"explore_steps", "2"}, {"distractor_steps", "3"}, {"reward_steps", "40"}}, 1);
  const Rgb red{255, 0, 0};
  const Count count = play(*environment, 100, [&red](const VecEnv& played) {
    if (played.phase(0) != "reward") return false;
    Canvas canvas;
    played.draw(0, canvas);
    for (int column = 0; column < canvas.columns(); ++column)
      if (canvas.at(1, column) == red) return false;
    return true;
  });
  CHECK(count.undecided > 0);
  CHECK(count.right > 0);
  CHECK(count.wrong > count.right);
}

TEST_CASE("key-to-door: the decision is to open the door, which is right") {
  const auto environment = single_env("key_to_door", {{"explore_steps", "30"}, {"distractor_steps", "2"}}, 1);
  const Count count = play(*environment, 200, [](const VecEnv& played) { return played.success_N()[0] != 0; });
  CHECK(count.undecided > 0);
  CHECK(count.right > 0);
  CHECK(count.wrong == 0);
}

TEST_CASE("T-maze: the decision is the goal at which the episode ends") {
  for (const char* const active : {"false", "true"}) {
    const auto environment = single_env("tmaze", {{"corridor_length", "1"}, {"active", active}}, 1);
    const Count count = play(*environment, 300, [](const VecEnv& played) {
      float seen[2];
      std::memcpy(seen, played.observation_N().data(), sizeof seen);
      return played.end_N()[0] != End::kNone && seen[0] == 1 && seen[1] != 0;
    });
    CHECK(count.undecided > 0);
    CHECK(count.right > 0);
    CHECK(count.wrong > 0);
  }
}
