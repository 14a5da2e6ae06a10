#include "envs/tasks/dark_rooms/dark_room.h"

#include <cstdint>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

constexpr Rgb kHiddenGoal{0, 90, 220}, kReachedGoal{0, 150, 0};

}  // namespace

DarkRoom::Options::Options() {
  attempt_steps = 20;
  max_steps = 210;
  random_start = false;
}

void DarkRoom::Options::list_options(OptionList& list) {
  RoomOptions::list(list);
  list.add("pays_once", pays_once, "the goal pays once an attempt; false: for every step on it");
}

DarkRoom::Params DarkRoom::make_params(const Options& options, std::uint64_t, Purpose) {
  return {{dark::room_of(options)}, options.pays_once};
}

void DarkRoom::draw(const Params& params, const State& state, Canvas& canvas) {
  dark::draw_room(params.room, state.attempts, canvas);
  canvas.set(state.goal.x, state.goal.y, state.attempts.found ? kReachedGoal : kHiddenGoal);
  canvas.set(state.attempts.player.x, state.attempts.player.y, dark::kPlayer);
}

std::vector<ColourMeaning> DarkRoom::colours(const Params&) {
  std::vector<ColourMeaning> colours = dark::room_colours();
  colours.insert(colours.end(), {{'g', kHiddenGoal, "goal"}, {'G', kReachedGoal, "goal, reached"}});
  return colours;
}

std::vector<VectorPart> DarkRoom::vector_parts(const Params& params) {
  return dark::vector_parts(params.room, "goal reached in this attempt (1) or not (0)", {"the goal"});
}

std::vector<TaskPreset> DarkRoom::presets() {
  return {{"dark_room_9", kName, {}, kSource},
          {"dark_room_hard_17", kName, {{"size", "17"}, {"pays_once", "true"}}, kSource}};
}

template TaskEntry task_entry<DarkRoom>();

}  // namespace engram
