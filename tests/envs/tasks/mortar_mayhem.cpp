#include "envs/tasks/memory_gym/mortar_mayhem.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "envs/task_entry.h"
#include "tests/envs/tasks/task_settings.h"

using namespace engram;
using namespace engram::testing;

namespace {

constexpr int kStay = 0, kLeft = 1, kRight = 2, kForward = 3;
// Commands by their numbers.
constexpr int kGoRight = 0, kGoDown = 1, kGoLeft = 2, kGoUp = 3, kHold = 4;

MortarMayhem::Params params_of(const MortarMayhem::Options& options) {
  return MortarMayhem::make_params(options, 1, Purpose::kTest);
}

MortarMayhem::Commands commands_of(const std::vector<int>& numbers) {
  MortarMayhem::Commands commands{};
  for (std::size_t i = 0; i < numbers.size(); ++i) commands.set(static_cast<int>(i), numbers[i]);
  return commands;
}

std::vector<float> observe(const MortarMayhem::Params& params, const MortarMayhem::State& state) {
  std::vector<float> seen(static_cast<std::size_t>(MortarMayhem::observation_shape(params)[0]), -1.0f);
  MortarMayhem::observe(params, state, seen.data());
  return seen;
}

// The place of the 1 of a one-hot code, -1 where all are 0.
int code_at(const std::vector<float>& seen, std::size_t from, int width) {
  int found = -1;
  for (int i = 0; i < width; ++i) {
    const float value = seen[from + static_cast<std::size_t>(i)];
    CHECK((value == 0 || (value == 1 && found < 0)));
    if (value == 1) found = i;
  }
  return found;
}

Outcome step(const MortarMayhem::Params& params, MortarMayhem::State& state, int action) {
  Rng unused;
  return MortarMayhem::step(params, state, action, unused);
}

// What an agent does that goes to the tile which full_state shows; it has no memory.
int action_to_target(const MortarMayhem::Params& params, const std::vector<float>& seen) {
  const std::size_t at = seen.size() - static_cast<std::size_t>(4 * params.size + 5);
  const auto width = static_cast<std::size_t>(params.size);
  const int x = code_at(seen, at, params.size), y = code_at(seen, at + width, params.size);
  const int facing = code_at(seen, at + 2 * width, 4);
  const std::size_t target = at + 2 * width + 5;
  int off_x = code_at(seen, target, params.size) - x, off_y = code_at(seen, target + width, params.size) - y;
  if (params.form == MortarForm::kEndless) {
    const auto shorter = [&](int off) { return off > 1 ? off - params.size : off < -1 ? off + params.size : off; };
    off_x = shorter(off_x);
    off_y = shorter(off_y);
  }
  constexpr int kX[] = {0, -1, 0, 1}, kY[] = {-1, 0, 1, 0};
  int way = -1;
  for (int direction = 0; direction < 4; ++direction)
    if ((kX[direction] * off_x > 0 || kY[direction] * off_y > 0) && (way < 0 || direction == facing)) way = direction;
  if (way < 0) return kStay;
  return way == facing ? kForward : (way - facing + 4) % 4 == 1 ? kLeft : kRight;
}

}  // namespace

TEST_CASE("mortar mayhem: commands are shown in their turn while the agent cannot move, then carried out in time") {
  MortarMayhem::Options options;
  options.commands = 2;
  const MortarMayhem::Params params = params_of(options);
  CHECK(MortarMayhem::observation_shape(params) == std::vector<std::int64_t>{5 + 5 + 5 + 4 + 1});
  CHECK(MortarMayhem::max_episode_steps(params) == 2 * 4 + 2 * 8 - 2);  // the formula of the original's README

  MortarMayhem::State state = MortarMayhem::start(params, {1, 4}, commands_of({kGoRight, kGoUp}));
  const std::vector<int> shown = {0, 0, 0, -1, 3, 3, 3, -1};
  for (std::size_t t = 0; t < shown.size(); ++t) {
    CAPTURE(t);
    const std::vector<float> seen = observe(params, state);
    CHECK(code_at(seen, 0, 5) == shown[t]);
    CHECK(code_at(seen, 5, 5) == 1);
    CHECK(code_at(seen, 10, 5) == 4);
    CHECK(code_at(seen, 15, 4) == 0);  // up
    CHECK(seen[19] == 0);
    CHECK(MortarMayhem::phase(params, state) == (t < 7 ? "show" : "move"));
    CHECK(MortarMayhem::cue(params, state).has_value() == (t == 7));
    if (t < 7) CHECK(step(params, state, kForward).reward == 0);
  }
  CHECK(MortarMayhem::cue(params, state)->text == "right, up");

  step(params, state, kRight);
  step(params, state, kForward);
  step(params, state, kForward);
  step(params, state, kLeft);  // faces up again
  step(params, state, kLeft);
  step(params, state, kForward);  // too far to the right by one, and back
  CHECK(state.agent.at == memory_gym::Cell{2, 4});
  CHECK(observe(params, state)[19] == 0);
  Outcome outcome = step(params, state, kStay);  // the seventh
  CHECK(outcome.reward == 0.1f);
  CHECK(outcome.end == End::kNone);
  CHECK(observe(params, state)[19] == 1);
  CHECK(MortarMayhem::phase(params, state) == "explosion");
  CHECK(MortarMayhem::cue(params, state)->text == "up");
  CHECK(step(params, state, kRight).reward == 0);
  CHECK(observe(params, state)[19] == 1);
  step(params, state, kForward);  // the explosion is over with this step
  CHECK(observe(params, state)[19] == 0);
  CHECK(state.agent.at == memory_gym::Cell{2, 3});
  for (int t = 0; t < 5; ++t) CHECK(step(params, state, kStay).end == End::kNone);
  outcome = step(params, state, kStay);
  CHECK(outcome.reward == 0.1f);
  CHECK(outcome.end == End::kTerminated);
  CHECK(MortarMayhem::success(params, state));
}

TEST_CASE("mortar mayhem: being elsewhere when tiles explode, or walking off during it, ends the episode unpaid") {
  MortarMayhem::Options options;
  options.form = MortarForm::kAct;
  options.commands = 1;
  options.failure_reward = -0.5;
  options.sequence_reward = 2;
  const MortarMayhem::Params one = params_of(options);
  MortarMayhem::State state = MortarMayhem::start(one, {0, 0}, commands_of({kGoDown}));
  for (int t = 0; t < 6; ++t) CHECK(step(one, state, kForward).end == End::kNone);  // against the border
  CHECK(state.agent.at == memory_gym::Cell{0, 0});
  Outcome outcome = step(one, state, kStay);
  CHECK(outcome.reward == -0.5f);
  CHECK(outcome.end == End::kTerminated);
  CHECK(!MortarMayhem::success(one, state));

  options.commands = 2;
  const MortarMayhem::Params two = params_of(options);
  state = MortarMayhem::start(two, {0, 1}, commands_of({kHold, kHold}));
  for (int t = 0; t < 6; ++t) step(two, state, kStay);
  CHECK(step(two, state, kStay).reward == 0.1f);
  outcome = step(two, state, kForward);
  CHECK(outcome.reward == -0.5f);
  CHECK(outcome.end == End::kTerminated);
  // The last of a sequence pays both rewards.
  state = MortarMayhem::start(two, {0, 1}, commands_of({kHold, kHold}));
  for (int t = 0; t < 14; ++t) outcome = step(two, state, kStay);
  CHECK(outcome.end == End::kNone);
  outcome = step(two, state, kStay);
  CHECK(outcome.reward == 2.1f);
  CHECK(outcome.end == End::kTerminated);
  CHECK(MortarMayhem::max_episode_steps(two) == 15);
}

TEST_CASE("mortar mayhem, form act: all commands are seen at every step, and the agent moves from the first on") {
  MortarMayhem::Options options;
  options.form = MortarForm::kAct;
  options.commands = 3;
  options.allowed_commands = 9;
  const MortarMayhem::Params params = params_of(options);
  MortarMayhem::State state = MortarMayhem::start(params, {2, 2}, commands_of({8, 4, 5}));
  for (int t = 0; t < 9; ++t) {
    const std::vector<float> seen = observe(params, state);
    CHECK(seen.size() == 27 + 10 + 5);
    CHECK(code_at(seen, 0, 9) == 8);
    CHECK(code_at(seen, 9, 9) == 4);
    CHECK(code_at(seen, 18, 9) == 5);
    CHECK(!MortarMayhem::cue(params, state));
    step(params, state, t == 0 || t == 2 ? kForward : t == 1 ? kLeft : kStay);
  }
  CHECK(state.agent.at == memory_gym::Cell{1, 1});
}

TEST_CASE("mortar mayhem, form endless: one more command is shown each time, and all are carried out from the first") {
  MortarMayhem::Options options;
  options.form = MortarForm::kEndless;
  options.arena_size = 6;
  options.allowed_commands = 9;
  options.commands = 3;
  options.full_state = true;
  const MortarMayhem::Params params = params_of(options);
  const std::vector<int> commands = {kGoRight, 7, kGoUp};
  MortarMayhem::State state = MortarMayhem::start(params, {5, 0}, commands_of(commands));
  std::vector<int> shown;
  std::vector<std::pair<int, int>> targets;
  End end = End::kNone;
  int steps = 0;
  while (end == End::kNone) {
    const std::vector<float> seen = observe(params, state);
    if (const int command = code_at(seen, 0, 9); command >= 0) shown.push_back(command);
    const Outcome outcome = step(params, state, action_to_target(params, seen));
    ++steps;
    if (outcome.reward != 0) targets.emplace_back(state.agent.at.x, state.agent.at.y);
    end = outcome.end;
  }
  CHECK(end == End::kTruncated);
  CHECK(MortarMayhem::success(params, state));
  CHECK(steps == MortarMayhem::max_episode_steps(params));
  CHECK(shown == std::vector<int>{0, 0, 0, 7, 7, 7, 3, 3, 3});
  // Right over the border from (5, 0); then right, left down; then right, left down, up.
  CHECK(targets == std::vector<std::pair<int, int>>{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {0, 1}});
}

TEST_CASE("mortar mayhem: what full_state shows is enough without memory, in every form") {
  for (const MortarForm form : {MortarForm::kSequence, MortarForm::kAct, MortarForm::kEndless})
    for (const int kinds : {4, 5, 9}) {
      MortarMayhem::Options options;
      options.form = form;
      options.allowed_commands = kinds;
      options.commands = form == MortarForm::kEndless ? 5 : 10;
      options.full_state = true;
      const MortarMayhem::Params params = params_of(options);
      for (std::uint32_t episode = 0; episode < 50; ++episode) {
        Rng rng(1, Purpose::kTraining, 0, episode);
        MortarMayhem::State state = MortarMayhem::reset(params, rng);
        int steps = 0;
        for (End end = End::kNone; end == End::kNone; ++steps)
          end = step(params, state, action_to_target(params, observe(params, state))).end;
        REQUIRE(MortarMayhem::success(params, state));
        REQUIRE(steps == MortarMayhem::max_episode_steps(params));
      }
    }
}

TEST_CASE("mortar mayhem: places and commands are drawn evenly, commands among those that stay in the arena") {
  MortarMayhem::Options options;
  const MortarMayhem::Params params = params_of(options);
  std::map<std::pair<int, int>, std::map<int, int>> first;  // by place
  for (std::uint32_t episode = 0; episode < 25'000; ++episode) {
    Rng rng(2, Purpose::kTraining, 0, episode);
    const MortarMayhem::State state = MortarMayhem::reset(params, rng);
    REQUIRE(MortarMayhem::stays_inside(params, state.agent.at, state.commands));
    ++first[{state.agent.at.x, state.agent.at.y}][state.commands[0]];
  }
  CHECK(first.size() == 25);
  for (const auto& [place, commands] : first) {
    const auto [x, y] = place;
    const int allowed = 1 + (x > 0) + (x < 4) + (y > 0) + (y < 4);
    CHECK(static_cast<int>(commands.size()) == allowed);
    int all = 0;
    for (const auto& [command, count] : commands) all += count;
    CHECK(std::abs(all - 1000) < 130);  // four standard deviations
    for (const auto& [command, count] : commands) CHECK(std::abs(count - all / allowed) < 80);
  }
  options.form = MortarForm::kEndless;
  options.allowed_commands = 9;
  const MortarMayhem::Params endless = params_of(options);
  std::map<int, int> at_corner;
  for (std::uint32_t episode = 0; episode < 25'000; ++episode) {
    Rng rng(2, Purpose::kTraining, 0, episode);
    const MortarMayhem::State state = MortarMayhem::reset(endless, rng);
    if (state.agent.at == memory_gym::Cell{0, 0}) ++at_corner[state.commands[0]];
  }
  CHECK(at_corner.size() == 9);
}

TEST_CASE("mortar mayhem is drawn as it is, and options out of bounds are refused") {
  MortarMayhem::Options options;
  const MortarMayhem::Params params = params_of(options);
  const MortarMayhem::State state = MortarMayhem::start(params, {0, 2}, commands_of({kGoRight}));
  Canvas canvas;
  MortarMayhem::draw(params, state, canvas);
  const auto meaning = [&](int row, int column) -> std::string {
    for (const ColourMeaning& colour : MortarMayhem::colours(params))
      if (colour.colour == canvas.at(row, column)) return colour.meaning;
    return "";
  };
  CHECK(canvas.rows() == 5);
  CHECK(canvas.columns() == 9);
  CHECK(meaning(2, 0) == "agent");
  CHECK(canvas.arrow()->facing == Facing::kUp);
  CHECK(meaning(2, 1) == "the tile to be on");
  CHECK(meaning(0, 0) == "tile");
  CHECK(meaning(1, 8) == "the command: where to step");
  CHECK(meaning(1, 7) == "compass");
  CHECK(meaning(4, 7) == "outside");
  CHECK(settings_error("mortar_mayhem", {{"commands", "0"}}) ==
        "task.commands = '0' is not allowed; it takes integer 1..64");
  CHECK(settings_error("mortar_mayhem", {{"arena_size", "7"}}) != "");
  CHECK(settings_error("mortar_mayhem", {{"allowed_commands", "3"}}) != "");
  CHECK(settings_error("mortar_mayhem", {{"form", "grid"}}) != "");
  CHECK(settings_error("mortar_mayhem", {{"explosion_delay", "0"}}) != "");
}
