#include "envs/tasks/memory_rl/tmaze.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <tuple>

#include "base/error.h"
#include "envs/task_entry.h"

using namespace engram;

namespace {

TMaze::Params make_params(bool active, int corridor_length) {
  TMaze::Options options;
  options.active = active;
  options.corridor_length = corridor_length;
  return TMaze::make_params(options, 1, Purpose::kTest);
}

using Observation = std::array<float, 2>;

Observation observe(const TMaze::Params& params, const TMaze::State& state) {
  std::array<float, 5> all{};  // with the full state
  TMaze::observe(params, state, all.data());
  return {all[0], all[1]};
}

Outcome step(const TMaze::Params& params, TMaze::State& state, int action) {
  Rng unused;
  return TMaze::step(params, state, action, unused);
}

}  // namespace

TEST_CASE("passive: the sign is seen once, the way ahead costs nothing, the right turn pays") {
  const TMaze::Params params = make_params(false, 4);
  CHECK(TMaze::max_episode_steps(params) == 5);
  for (const int goal : {-1, 1})
    for (const int turn : {1, 3}) {
      TMaze::State state = TMaze::start(params, goal);
      CHECK(observe(params, state) == Observation{0, static_cast<float>(goal)});
      CHECK(observe(params, state) == Observation{0, static_cast<float>(goal)});  // observing changes nothing
      for (int t = 1; t <= 4; ++t) {
        const Outcome outcome = step(params, state, 0);
        CHECK(outcome.reward == 0);
        CHECK(outcome.end == End::kNone);
        CHECK(observe(params, state) == (t < 4 ? Observation{0, 0} : Observation{1, 0}));
      }
      const Outcome last = step(params, state, turn);
      const int y = turn == 1 ? 1 : -1;
      CHECK(last.end == End::kTerminated);
      CHECK(last.reward == (y == goal ? 1 : 0));
      CHECK(TMaze::success(params, state) == (y == goal));
      CHECK(observe(params, state) == Observation{1, static_cast<float>(y)});
    }
}

TEST_CASE("passive: coming back to the start shows no sign, and lagging behind costs 1 / corridor_length a step") {
  const TMaze::Params params = make_params(false, 4);
  TMaze::State state = TMaze::start(params, 1);
  CHECK(step(params, state, 2).reward == -0.25f);  // bumps; x = 0 < t = 1
  CHECK(observe(params, state) == Observation{0, 0});
  CHECK(step(params, state, 0).reward == -0.25f);
  CHECK(step(params, state, 2).reward == -0.25f);
  CHECK(observe(params, state) == Observation{0, 0});
  CHECK(step(params, state, 1).reward == -0.25f);  // no way up in the corridor
  CHECK(state.y == 0);
  const Outcome last = step(params, state, 0);
  CHECK(last.reward == 0);
  CHECK(last.end == End::kTerminated);
}

TEST_CASE("active: the sign is one step behind the start, and fetching it costs nothing") {
  const TMaze::Params params = make_params(true, 3);
  CHECK(TMaze::max_episode_steps(params) == 6);
  TMaze::State state = TMaze::start(params, -1);
  CHECK(observe(params, state) == Observation{0, 0});
  CHECK(step(params, state, 2).reward == 0);
  CHECK(observe(params, state) == Observation{0, -1});
  CHECK(TMaze::phase(params, state) == "oracle");
  for (int t = 2; t <= 5; ++t) {
    CHECK(step(params, state, 0).reward == 0);
    CHECK(observe(params, state) == (t < 5 ? Observation{0, 0} : Observation{1, 0}));
  }
  CHECK(step(params, state, 3).reward == 1);
  CHECK(TMaze::success(params, state));
}

TEST_CASE("at the end the goals can be left again and nothing lies beyond them") {
  const TMaze::Params params = make_params(false, 1);
  TMaze::State state = TMaze::start(params, 1);
  state.t = -100;  // time to walk about
  step(params, state, 0);
  for (const auto& [action, x, y] : {std::tuple{0, 1, 0},
                                     {1, 1, 1},
                                     {1, 1, 1},
                                     {2, 1, 1},
                                     {0, 1, 1},
                                     {3, 1, 0},
                                     {3, 1, -1},
                                     {3, 1, -1},
                                     {2, 1, -1},
                                     {1, 1, 0},
                                     {2, 0, 0},
                                     {3, 0, 0}}) {
    step(params, state, action);
    CHECK(state.x == x);
    CHECK(state.y == y);
  }
}

TEST_CASE("both goals come with even odds, and the drawing shows which it is") {
  const TMaze::Params params = make_params(true, 5);
  constexpr int kEpisodes = 10000;
  int up = 0;
  for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
    Rng rng(1, Purpose::kTest, 0, episode);
    const TMaze::State state = TMaze::reset(params, rng);
    up += state.goal_y == 1;
    if (episode > 20) continue;
    Canvas canvas;
    TMaze::draw(params, state, canvas);
    CHECK(canvas.rows() == 3);
    CHECK(canvas.columns() == 7);
    CHECK(canvas.at(state.goal_y == 1 ? 0 : 2, 6).green > canvas.at(state.goal_y == 1 ? 2 : 0, 6).green);
  }
  CHECK(std::abs(up - kEpisodes / 2) < 5 * 50);  // five standard deviations of a binomial count
}

TEST_CASE("rewritten signs: drawn and shown anew at places spread over the corridor, and only the last one counts") {
  Rng choice(4, Purpose::kAction, 0, 0);
  for (const bool active : {false, true})
    for (const int length : {2, 7, 20})
      for (const int rewrites : {1, 3, length - 1}) {
        if (rewrites >= length) continue;
        CAPTURE(active);
        CAPTURE(length);
        CAPTURE(rewrites);
        TMaze::Options options;
        options.active = active;
        options.corridor_length = length;
        options.rewrites = rewrites;
        const TMaze::Params params = TMaze::make_params(options, 1, Purpose::kTest);
        std::set<int> places;
        for (int i = 1; i <= rewrites; ++i) places.insert((active ? 1 : 0) + i * length / (rewrites + 1));
        CHECK(static_cast<int>(places.size()) == rewrites);
        CHECK(*places.begin() > (active ? 1 : 0));
        CHECK(*places.rbegin() < (active ? 1 : 0) + length);
        int shown = 0, up = 0, changed = 0, paid = 0, at_goals = 0;
        for (std::uint32_t episode = 0; episode < 400; ++episode) {
          Rng rng(1, Purpose::kTest, 0, episode);
          TMaze::State state = TMaze::reset(params, rng);
          float sign = observe(params, state)[1];
          bool seen_before = sign != 0;
          for (End end = End::kNone; end == End::kNone;) {
            const int x = state.x;
            // Mostly ahead, so that it comes to the goals; at the end to either side.
            const bool at_end = x == length + (active ? 1 : 0);
            const auto drawn = static_cast<int>(choice.below(20));
            const int action = at_end ? 1 + 2 * (drawn % 2) : drawn < 2 ? drawn + 1 : 0;
            const Outcome outcome = TMaze::step(params, state, action, rng);
            end = outcome.end;
            const Observation seen = observe(params, state);
            if (state.x != x && places.contains(state.x)) {
              REQUIRE(seen[0] == 0);
              REQUIRE(std::abs(seen[1]) == 1);
              changed += seen_before && seen[1] != sign;
              shown += seen_before;
              up += seen[1] == 1;
              sign = seen[1];
              seen_before = true;
            } else if (seen[0] == 0 && state.x != 0) {
              REQUIRE(seen[1] == 0);
            } else if (seen[0] == 0 && seen[1] != 0) {  // the active form's first sign
              REQUIRE(!seen_before);
              sign = seen[1];
              seen_before = true;
            }
            if (end != End::kNone && state.y != 0) {
              ++at_goals;
              paid += outcome.reward == 1;
              REQUIRE((outcome.reward == 1) == (static_cast<float>(state.y) == sign));
              REQUIRE(TMaze::success(params, state) == (outcome.reward == 1));
            }
          }
        }
        CHECK(at_goals > 20);
        CHECK(paid > 0);
        CHECK(paid < at_goals);
        CHECK(std::abs(changed - shown / 2) < 4 * std::sqrt(shown) / 2 + 1);  // each new one differs with even odds
        CHECK(up > 0);
      }
  TMaze::Options options;
  options.corridor_length = 8;
  options.rewrites = 8;
  CHECK_THROWS_WITH_AS(check_options(options),
                       "task.rewrites = '8' is not allowed with task.corridor_length = '8'; it takes fewer than that",
                       UserError);
}

TEST_CASE("options out of bounds are refused by name") {
  TMaze::Options options;
  options.corridor_length = 0;
  CHECK_THROWS_WITH_AS(check_options(options), "task.corridor_length = '0' is not allowed; it takes integer 1..1000000",
                       UserError);
  options = {};
  options.penalty = 0.5;
  CHECK_THROWS_AS(check_options(options), UserError);
}
