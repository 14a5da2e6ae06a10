#include "envs/tasks/endless_tmaze.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "envs/task_entry.h"
#include "tests/envs/tasks/task_settings.h"

using namespace engram;
using namespace engram::testing;

namespace {

EndlessTMaze::Params make_params(int corridors, int corridor_length, CorridorLengths lengths, bool full_state = false) {
  EndlessTMaze::Options options;
  options.corridors = corridors;
  options.corridor_length = corridor_length;
  options.lengths = lengths;
  options.full_state = full_state;
  return EndlessTMaze::make_params(options, 1, Purpose::kTest);
}

using Observation = std::array<float, 5>;  // the last two of full_state
Observation observe(const EndlessTMaze::Params& params, const EndlessTMaze::State& state) {
  Observation seen{};
  EndlessTMaze::observe(params, state, seen.data());
  return seen;
}

constexpr int kForward = 0, kLeft = 1, kRight = 2;

}  // namespace

TEST_CASE("the sign is seen at a corridor's start alone, the turn it pointed at pays, any other ends the episode") {
  const EndlessTMaze::Params params = make_params(2, 3, CorridorLengths::kFixed);
  CHECK(EndlessTMaze::max_episode_steps(params) == 6 * 4 * 2);
  for (const bool right : {false, true})
    for (const int turn : {kForward, kLeft, kRight}) {
      CAPTURE(right);
      CAPTURE(turn);
      EndlessTMaze::State state = EndlessTMaze::start({3, right});
      CHECK(observe(params, state) == Observation{0, right ? 0.0f : 1.0f, right ? 1.0f : 0.0f});
      CHECK(EndlessTMaze::phase(params, state) == "sign");
      CHECK(!EndlessTMaze::cue(params, state));
      // A turn where there is none does nothing but cost.
      Outcome outcome = EndlessTMaze::step_with(params, state, kLeft, {});
      CHECK(outcome.reward == -0.01f);
      CHECK(state.x == 0);
      for (int x = 1; x <= 3; ++x) {
        outcome = EndlessTMaze::step_with(params, state, kForward, {});
        CHECK(outcome.reward == 0);
        CHECK(outcome.end == End::kNone);
        CHECK(observe(params, state) == Observation{static_cast<float>(x) / 3});
        CHECK(EndlessTMaze::phase(params, state) == (x == 3 ? "junction" : "corridor"));
        CHECK(EndlessTMaze::cue(params, state)->text == (right ? "turn right" : "turn left"));
      }
      outcome = EndlessTMaze::step_with(params, state, turn, {3, !right});
      const bool rightly = turn == (right ? kRight : kLeft);
      CHECK(outcome.reward == (rightly ? 1 : -1));
      CHECK(outcome.end == (rightly ? End::kNone : End::kTerminated));
      CHECK(!EndlessTMaze::success(params, state));
      if (!rightly) continue;
      CHECK(observe(params, state) == Observation{0, right ? 1.0f : 0.0f, right ? 0.0f : 1.0f});  // the next sign
      for (int x = 1; x <= 3; ++x) EndlessTMaze::step_with(params, state, kForward, {});
      outcome = EndlessTMaze::step_with(params, state, right ? kLeft : kRight, {});
      CHECK(outcome.reward == 1);
      CHECK(outcome.end == End::kTerminated);
      CHECK(EndlessTMaze::success(params, state));
    }
}

TEST_CASE("an episode is cut after six times the steps that it takes without a detour") {
  const EndlessTMaze::Params params = make_params(1, 2, CorridorLengths::kFixed);
  EndlessTMaze::State state = EndlessTMaze::start({2, true});
  for (int t = 1; t < 18; ++t) CHECK(EndlessTMaze::step_with(params, state, kRight, {}).end == End::kNone);
  CHECK(EndlessTMaze::step_with(params, state, kRight, {}).end == End::kTruncated);
  // Also where the last corridor is passed in that step, as in the original.
  state = EndlessTMaze::start({2, true});
  for (int t = 1; t < 16; ++t) EndlessTMaze::step_with(params, state, kRight, {});
  for (int t = 16; t < 18; ++t) CHECK(EndlessTMaze::step_with(params, state, kForward, {}).end == End::kNone);
  const Outcome last = EndlessTMaze::step_with(params, state, kRight, {});
  CHECK(last.reward == 1);
  CHECK(last.end == End::kTruncated);
  CHECK(EndlessTMaze::success(params, state));
}

TEST_CASE("corridors are drawn one by one: turns with even odds, lengths all the same or evenly over all") {
  for (const CorridorLengths lengths : {CorridorLengths::kFixed, CorridorLengths::kUniform}) {
    const EndlessTMaze::Params params = make_params(20, 4, lengths, /*full_state=*/true);
    std::map<int, int> of_length;
    int right = 0, all = 0, changes = 0;
    for (std::uint32_t episode = 0; episode < 100; ++episode) {
      Rng rng(1, Purpose::kTraining, 0, episode);
      EndlessTMaze::State state = EndlessTMaze::reset(params, rng);
      for (End end = End::kNone; end == End::kNone;) {
        const Observation seen = observe(params, state);
        if (state.x == 0) {
          ++of_length[state.corridor.length];
          right += state.corridor.right;
          ++all;
        }
        // What full_state shows is enough to solve it without memory.
        const bool was_right = state.corridor.right;
        const int action = seen[4] == 0 ? kForward : seen[3] > 0 ? kRight : kLeft;
        end = EndlessTMaze::step(params, state, action, rng).end;
        changes += state.x == 0 && state.corridor.right != was_right;
      }
      CHECK(EndlessTMaze::success(params, state));
    }
    CHECK(all == 2000);
    CHECK(right > 900);
    CHECK(right < 1100);
    CHECK(changes > 850);  // of 1,900
    CHECK(of_length.size() == (lengths == CorridorLengths::kFixed ? 1 : 4));
    CHECK(of_length.rbegin()->first == 4);
    for (const auto& [length, count] : of_length) CHECK(count > (lengths == CorridorLengths::kFixed ? 1999 : 400));
  }
}

TEST_CASE("the turns are drawn where they are, and options out of bounds are refused") {
  const EndlessTMaze::Params params = make_params(1, 4, CorridorLengths::kUniform);
  Canvas canvas;
  EndlessTMaze::draw(params, EndlessTMaze::start({2, true}), canvas);
  CHECK(canvas.rows() == 3);
  CHECK(canvas.columns() == 5);
  const auto meaning = [&](int row, int column) -> std::string {
    for (const ColourMeaning& colour : EndlessTMaze::colours(params))
      if (colour.colour == canvas.at(row, column)) return colour.meaning;
    return "";
  };
  CHECK(meaning(1, 0) == "agent");
  CHECK(meaning(1, 2) == "corridor");
  CHECK(meaning(1, 3) == "wall");
  CHECK(meaning(2, 2) == "right turn");
  CHECK(meaning(0, 2) == "wrong turn");
  CHECK(settings_error("endless_tmaze", {{"corridors", "0"}}) ==
        "task.corridors = '0' is not allowed; it takes integer 1..1000");
  CHECK(settings_error("endless_tmaze", {{"corridor_length", "0"}}) != "");
  CHECK(settings_error("endless_tmaze", {{"lengths", "normal"}}) != "");
  CHECK(settings_error("endless_tmaze", {{"delay_reward", "1"}}) != "");
}
