#include "envs/tasks/minigrid/door_key.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {

void DoorKey::Options::list_options(OptionList& list) {
  list.add("size", size, {kMinSize, kMaxSize}, "side of the maze in cells, its walls included");
  observed.list_options(list);
  list_full_state(list, full_state);
}

DoorKey::Params DoorKey::make_params(const Options& options, std::uint64_t, Purpose) {
  Params params{params_of(options, /*steps_per_cell=*/10), {}};
  const auto side = static_cast<std::size_t>(options.size);
  for (int wall = kFirstWall; wall < options.size - 2; ++wall) {
    std::string row = minigrid::open_row(options.size);
    row[static_cast<std::size_t>(wall)] = '#';
    std::vector<std::string> map(side, row);
    map.front() = map.back() = std::string(side, '#');
    params.walls[wall - kFirstWall] = minigrid::make_walls(map);
  }
  return params;
}

void DoorKey::draw(const Params& params, const State& state, Canvas& canvas) {
  const Items items = items_of(params, state);
  const bool holds_key = state.key.x == kNowhere;
  minigrid::draw(walls_of(params, state), params.size, params.size, state.view, state.agent,
                 items.item + (holds_key ? 1 : 0), holds_key ? 2 : 3, canvas);
  if (holds_key) canvas.set(0, 0, minigrid::item_colour(key_codes()));
}

std::vector<ColourMeaning> DoorKey::colours(const Params&) {
  return minigrid::colours({{'k', key_codes(), "key"},
                            {'D', {minigrid::kDoor, minigrid::kYellow, minigrid::kLocked}, "door"},
                            {'d', {minigrid::kDoor, minigrid::kYellow, minigrid::kOpen}, "open door"},
                            {'G', {minigrid::kGoal, minigrid::kGreen, 0}, "goal"}});
}

std::string DoorKey::phase(const Params&, const State& state) {
  if (state.door == minigrid::kLocked) return state.key.x == kNowhere ? "to the door" : "to the key";
  return "to the goal";
}

ShownObservation DoorKey::shown(const Params& params, const Element* observation) {
  return minigrid::shown(params.observed, shown_side(params), params.full_state, observation);
}

std::vector<TaskPreset> DoorKey::presets() { return minigrid::sizes(kName, {"5", "6", "8", "16"}); }

template TaskEntry task_entry<DoorKey>();

}  // namespace engram
