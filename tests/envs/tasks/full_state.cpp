// task.full_state: the same episodes, whose observations also show what makes memory needless.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "envs/all_tasks.h"
#include "envs/registry.h"
#include "tests/envs/plain_observation.h"

using namespace engram;

namespace {

// Plays the same random episodes without and with full_state; `check` sees both after every observation. The rewards
// and ends of both are the same.
template <class Task>
void play_both(typename Task::Options options,
               const std::function<void(const typename Task::Params& plain, const typename Task::Params& full,
                                        const typename Task::State& state)>& check) {
  const typename Task::Params plain = Task::make_params(options, 1, Purpose::kTraining);
  options.full_state = true;
  const typename Task::Params full = Task::make_params(options, 1, Purpose::kTraining);
  Rng choice(3, Purpose::kAction, 0, 0);
  for (std::uint32_t episode = 0; episode < 60; ++episode) {
    Rng rng(1, Purpose::kTraining, 0, episode), other = rng;
    typename Task::State state = Task::reset(plain, rng), twin = Task::reset(full, other);
    for (End end = End::kNone; end == End::kNone;) {
      check(plain, full, state);
      const int action = static_cast<int>(choice.below(Task::kNumActions));
      const Outcome outcome = Task::step(plain, state, action, rng), same = Task::step(full, twin, action, other);
      REQUIRE(outcome.reward == same.reward);
      REQUIRE(outcome.end == same.end);
      REQUIRE(Task::success(plain, state) == Task::success(full, twin));
      end = outcome.end;
    }
    check(plain, full, state);
  }
}

// The colour in the middle of the crop; the rest of it is as without full_state, and as drawn.
template <class Task>
Rgb middle_of(const typename Task::Params& plain, const typename Task::Params& full,
              const typename Task::State& state) {
  const auto before = fast_observation<Task>(plain, state), now = fast_observation<Task>(full, state);
  REQUIRE(now == plain_observation<Task>(full, state));
  constexpr std::size_t kMiddle = board::kCrop * board::kCrop / 2;
  for (std::size_t i = 0; i < now.size(); ++i)
    if (i % (board::kCrop * board::kCrop) != kMiddle) REQUIRE(now[i] == before[i]);
  return {now[kMiddle], now[kMiddle + 25], now[kMiddle + 50]};
}

}  // namespace

TEST_CASE("T-maze: goal, way and delay stand behind the usual observation") {
  for (const bool active : {false, true}) {
    TMaze::Options options;
    options.active = active;
    options.corridor_length = 6;
    int late = 0, in_time = 0;
    play_both<TMaze>(options, [&](const auto& plain, const auto& full, const auto& state) {
      float before[5] = {}, now[5] = {};
      TMaze::observe(plain, state, before);
      TMaze::observe(full, state, now);
      REQUIRE(now[0] == before[0]);
      REQUIRE(now[1] == before[1]);
      REQUIRE(now[2] == state.goal_y);
      const int oracle = full.oracle;
      REQUIRE(now[3] == static_cast<float>(state.x) / static_cast<float>(6 + oracle));
      REQUIRE(now[4] == (state.t - oracle > state.x ? 1.0f : 0.0f));
      ++(now[4] == 1 ? late : in_time);
    });
    CHECK(late > 100);
    CHECK(in_time > 60);
  }
}

TEST_CASE("visual match: the player's colour tells the right square's place in all phases") {
  for (const bool active : {false, true}) {
    VisualMatch::Options options;
    options.active = active;
    options.distractor_steps = 5;
    int at_squares = 0, total = 0;
    play_both<VisualMatch>(options, [&](const auto& plain, const auto& full, const auto& state) {
      const Rgb middle = middle_of<VisualMatch>(plain, full, state);
      REQUIRE(middle == full.square_colour[0][state.target]);
      ++total;
      at_squares += state.board.phase == board::kReward;
    });
    CHECK(at_squares > total / 4);
  }
}

TEST_CASE("key-to-door: the player wears the key's colour while it has the key") {
  KeyToDoor::Options options;
  options.distractor_steps = 5;
  int with_key = 0, without = 0;
  play_both<KeyToDoor>(options, [&](const auto& plain, const auto& full, const auto& state) {
    const Rgb middle = middle_of<KeyToDoor>(plain, full, state);
    const board::Palette& palette = full.board.palette;
    if (state.board.phase == board::kReward && board::same(state.board.player, state.door))
      REQUIRE(middle == palette.door);
    else
      REQUIRE(middle == (state.has_key ? palette.key : palette.player));
    (state.has_key ? with_key : without) += 1;
  });
  CHECK(with_key > 100);
  CHECK(without > 100);
}

TEST_CASE("every task has the option, off by default, and says where its chance comes from") {
  for (const std::string& name : task_names()) {
    CAPTURE(name);
    TaskConfig task(name);
    const OptionList options = task.options();
    int found = 0;
    for (const Option& option : options.options())
      if (option.name == "task.full_state") found += option.get() == "false";
    CHECK(found == 1);
    CHECK_FALSE(task.info().chance_source.empty());
  }
}
