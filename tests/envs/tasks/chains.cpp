// bsuite's chains, held against what their observations say.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/envs/single_env.h"

using namespace engram;
using namespace engram::testing;

namespace {

bool near_odds(int found, double odds, int trials) {
  return std::abs(found - odds * trials) <= 5 * std::sqrt(odds * (1 - odds) * trials);
}

}  // namespace

TEST_CASE("memory chain: the bits are shown at the start alone, and the one that is asked for has to be answered") {
  for (const bool shown_twice : {true, false})
    for (const int length : {1, 2, 7})
      for (const int bits : {1, 5, 33, 64}) {
        CAPTURE(length);
        CAPTURE(bits);
        const Settings settings = {{"memory_length", std::to_string(length)},
                                   {"bits", std::to_string(bits)},
                                   {"shown_twice", shown_twice ? "true" : "false"}};
        const auto plain = single_env("memory_chain", settings);
        Settings with_all = settings;
        with_all.emplace_back("full_state", "true");
        const auto full = single_env("memory_chain", with_all);
        const int steps = length + (shown_twice ? 1 : 0);
        REQUIRE(plain->info().max_episode_steps == steps);
        constexpr int kEpisodes = 400;
        std::vector<int> asked(static_cast<std::size_t>(bits)), set(static_cast<std::size_t>(bits));
        for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
          plain->reset_all(episode);
          full->reset_all(episode);
          const std::vector<float> first = observation_of(*plain);
          int query = 0;
          for (int t = 0; t <= steps; ++t) {
            const int moment = shown_twice && t > 0 ? t - 1 : t;
            const std::vector<float> seen = observation_of(*plain), all = observation_of(*full);
            REQUIRE(seen[0] == static_cast<float>(1 - static_cast<double>(moment) / length));
            if (moment == length - 1) query = static_cast<int>(seen[1]);
            REQUIRE((seen[1] == 0 || moment == length - 1));
            for (int i = 0; i < bits; ++i) {
              REQUIRE(std::abs(first[2 + i]) == 1);
              REQUIRE(seen[2 + i] == (moment == 0 ? first[2 + i] : 0));
              REQUIRE(all[2 + i] == first[2 + i]);
            }
            REQUIRE(all[1] == seen[1]);
            REQUIRE((plain->end_N()[0] != End::kNone) == (t == steps));
            REQUIRE(plain->decided(0) == (t == steps));
            const auto cue = plain->cue(0);
            REQUIRE(cue.has_value() == (bits == 1 && moment > 0));
            if (cue) REQUIRE(cue->text == (first[2] > 0 ? "+1" : "-1"));
            CHECK_FALSE(full->cue(0));
            if (t == steps) break;
            const int right = first[2 + query] > 0 ? 1 : 0;
            const int action = t + 1 < steps ? t % 2 : episode % 2 == 0 ? right : 1 - right;
            step(*plain, action);
            step(*full, action);
            if (t + 1 < steps) REQUIRE(plain->reward_N()[0] == 0);
          }
          REQUIRE(plain->reward_N()[0] == (episode % 2 == 0 ? 1.0f : -1.0f));
          REQUIRE((plain->success_N()[0] == 1) == (episode % 2 == 0));
          REQUIRE(plain->end_N()[0] == End::kTerminated);
          REQUIRE(query < bits);
          ++asked[static_cast<std::size_t>(query)];
          for (int i = 0; i < bits; ++i) set[static_cast<std::size_t>(i)] += first[2 + i] > 0;
        }
        for (const int count : asked) CHECK(near_odds(count, 1.0 / bits, kEpisodes));
        for (const int count : set) CHECK(near_odds(count, 0.5, kEpisodes));
      }
}

TEST_CASE("memory chain: drawn are the bits while they are shown, and the one that will be asked for") {
  const auto environment = single_env("memory_chain", {{"memory_length", "4"}, {"bits", "3"}});
  const Rgb blue{0, 90, 220}, red{210, 0, 0}, grey{204, 204, 204};
  std::set<std::string> phases;
  for (std::uint32_t episode = 0; episode < 20; ++episode) {
    environment->reset_all(episode);
    const std::vector<float> first = observation_of(*environment);
    for (int t = 0; t < 5; ++t) {
      phases.insert(environment->phase(0));
      Canvas canvas;
      environment->draw(0, canvas);
      int lit = 0;
      for (int i = 0; i < 3; ++i) {
        const Rgb colour = first[2 + i] > 0 ? blue : red;
        CHECK(canvas.at(0, i) == (t < 2 ? colour : grey));
        if (canvas.at(1, i) != grey) {
          ++lit;
          CHECK(canvas.at(1, i) == colour);
          if (t == 4) CHECK(observation_of(*environment)[1] == i);
        }
      }
      CHECK(lit == 1);
      step(*environment, 0);
    }
  }
  CHECK(phases == std::set<std::string>{"shown", "wait", "answer"});
}

TEST_CASE("umbrella chain: the first action decides the last reward, all others are drawn at random") {
  for (const int length : {1, 2, 9})
    for (const int distractors : {0, 20, 127}) {
      CAPTURE(length);
      CAPTURE(distractors);
      const auto environment = single_env(
          "umbrella_chain", {{"chain_length", std::to_string(length)}, {"distractors", std::to_string(distractors)}});
      constexpr int kEpisodes = 400;
      int needed = 0, had = 0, pays = 0;
      std::vector<int> set(static_cast<std::size_t>(distractors));
      for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
        environment->reset_all(episode);
        const std::vector<float> first = observation_of(*environment);
        needed += first[0] == 1;
        had += first[1] == 1;
        const int action = episode % 4 < 2 ? static_cast<int>(first[0]) : 1 - static_cast<int>(first[0]);
        for (int t = 0; t <= length; ++t) {
          const std::vector<float> seen = observation_of(*environment);
          REQUIRE(seen[0] == first[0]);
          REQUIRE(seen[1] == (t == 0 ? first[1] : static_cast<float>(action)));
          REQUIRE(seen[2] == static_cast<float>(1 - static_cast<double>(t) / length));
          for (int i = 0; i < distractors; ++i) {
            REQUIRE((seen[3 + i] == 0 || seen[3 + i] == 1));
            set[static_cast<std::size_t>(i)] += seen[3 + i] == 1;
          }
          REQUIRE(environment->phase(0) == (t == 0 ? "choice" : "chain"));
          REQUIRE(environment->decided(0) == (t > 0));
          Canvas canvas;
          environment->draw(0, canvas);
          REQUIRE((canvas.at(0, 0) == Rgb{0, 90, 220}) == (seen[0] == 1));
          REQUIRE((canvas.at(0, 1) == Rgb{0, 90, 220}) == (seen[1] == 1));
          for (int i = 0; i < distractors; ++i)
            REQUIRE((canvas.at(1 + i / 16, i % 16) == Rgb{25, 25, 25}) == (seen[3 + i] == 1));
          REQUIRE((environment->end_N()[0] != End::kNone) == (t == length));
          if (t == length) break;
          step(*environment, t == 0 ? action : (t + static_cast<int>(episode)) % 2);
          REQUIRE(std::abs(environment->reward_N()[0]) == 1);
          if (t + 1 < length) pays += environment->reward_N()[0] > 0;
        }
        REQUIRE(environment->reward_N()[0] == (episode % 4 < 2 ? 1.0f : -1.0f));
        REQUIRE((environment->success_N()[0] == 1) == (episode % 4 < 2));
        REQUIRE(environment->end_N()[0] == End::kTerminated);
      }
      CHECK(near_odds(needed, 0.5, kEpisodes));
      CHECK(near_odds(had, 0.5, kEpisodes));
      CHECK(near_odds(pays, 0.5, kEpisodes * (length - 1)));
      for (const int count : set) CHECK(near_odds(count, 0.5, kEpisodes * (length + 1)));
    }
}
