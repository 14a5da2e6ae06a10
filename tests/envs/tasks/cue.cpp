// The cue that films restate is what the agent was shown, said only while it no longer sees it.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/envs/single_env.h"

using namespace engram;
using namespace engram::testing;

namespace {

const Settings kShort = {{"explore_steps", "6"}, {"distractor_steps", "4"}, {"reward_steps", "5"}};

bool has_colour(const VecEnv& environment, Rgb colour) {
  Canvas board;
  environment.draw(0, board);
  for (int row = 0; row < board.rows(); ++row)
    for (int column = 0; column < board.columns(); ++column)
      if (board.at(row, column) == colour) return true;
  return false;
}

}  // namespace

TEST_CASE("visual match: the colour that phase 1 shows, from phase 2 on") {
  const auto environment = single_env("visual_match", kShort);
  const Rgb colours[] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}};
  int seen[3] = {};
  for (std::uint32_t episode = 0; episode < 30; ++episode) {
    environment->reset_all(episode);
    std::optional<Rgb> shown;
    for (const Rgb& colour : colours)
      if (has_colour(*environment, colour)) shown = colour;
    REQUIRE(shown);
    for (int t = 0; t <= 15; ++t) {
      CAPTURE(t);
      const auto cue = environment->cue(0);
      REQUIRE(cue.has_value() == (t >= 6));
      if (cue) CHECK(cue->colour == shown);
      if (t < 15) step(*environment, t % 4);
    }
    for (int i = 0; i < 3; ++i) seen[i] += *shown == colours[i];
  }
  for (const int count : seen) CHECK(count > 0);
}

TEST_CASE("key-to-door: whether the key was taken, from phase 2 on") {
  const Rgb key_colour{159, 81, 44};
  const auto environment = single_env("key_to_door", kShort);
  Rng random(3, Purpose::kTest, 0, 0);
  int taken = 0, missed = 0;
  for (std::uint32_t episode = 0; episode < 200; ++episode) {
    environment->reset_all(episode);
    bool key_there = true;
    for (int t = 0; t <= 15; ++t) {
      const auto cue = environment->cue(0);
      REQUIRE(cue.has_value() == (t >= 6));
      if (cue) {
        CHECK(cue->text == (key_there ? "no key taken" : "key taken"));
        CHECK(cue->colour == (key_there ? std::nullopt : std::optional(key_colour)));
      }
      if (t == 15) break;
      // The key stays on the board until it is taken, which may be with the last step of the phase.
      step(*environment, static_cast<std::int32_t>(random.below(4)));
      if (t < 5) key_there = has_colour(*environment, key_colour);
      if (t == 5) key_there = environment->cue(0)->text == "no key taken";
    }
    ++(key_there ? missed : taken);
  }
  CHECK(taken > 0);
  CHECK(missed > 0);
}

TEST_CASE("T-maze: the side that the oracle shows, once it has been seen") {
  for (const bool active : {false, true}) {
    CAPTURE(active);
    const auto environment = single_env("tmaze", {{"corridor_length", "4"}, {"active", active ? "true" : "false"}});
    int sides[2] = {};
    for (std::uint32_t episode = 0; episode < 20; ++episode) {
      environment->reset_all(episode);
      CHECK_FALSE(environment->cue(0));
      if (active) {
        step(*environment, 2);  // to the oracle
        CHECK_FALSE(environment->cue(0));
      }
      float seen[2];
      std::memcpy(seen, environment->observation_N().data(), sizeof seen);
      REQUIRE(seen[1] != 0);
      step(*environment, 0);
      REQUIRE(environment->cue(0));
      CHECK(environment->cue(0)->text == (seen[1] > 0 ? "goal at +y" : "goal at -y"));
      ++sides[seen[1] > 0];
    }
    CHECK(sides[0] > 0);
    CHECK(sides[1] > 0);
  }
}

TEST_CASE("an agent that sees the full state has no cue to remember") {
  for (const char* const name : {"visual_match", "key_to_door", "tmaze"}) {
    auto settings = std::string(name) == "tmaze"
                        ? std::vector<std::pair<std::string, std::string>>{{"corridor_length", "4"}}
                        : kShort;
    settings.emplace_back("full_state", "true");
    const auto environment = single_env(name, settings);
    for (environment->reset_all(0); environment->end_N()[0] == End::kNone; step(*environment, 0))
      CHECK_FALSE(environment->cue(0));
  }
}
