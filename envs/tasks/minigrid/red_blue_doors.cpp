#include "envs/tasks/minigrid/red_blue_doors.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {

void RedBlueDoors::Options::list_options(OptionList& list) {
  list.add("size", size, {kMinSize, kMaxSize}, "side of the room in cells, its walls included");
  observed.list_options(list);
  list_full_state(list, full_state);
}

RedBlueDoors::Params RedBlueDoors::make_params(const Options& options, std::uint64_t, Purpose) {
  Params params{params_of(options, /*steps_per_cell=*/20), {}};
  std::string row(2 * static_cast<std::size_t>(options.size), ' ');
  for (const int wall : {0, static_cast<int>(red_x(params)), static_cast<int>(blue_x(params)), 2 * options.size - 1})
    row[static_cast<std::size_t>(wall)] = '#';
  std::vector<std::string> map(static_cast<std::size_t>(options.size), row);
  map.front() = map.back() = std::string(row.size(), '#');
  params.walls = minigrid::make_walls(map);
  return params;
}

void RedBlueDoors::draw(const Params& params, const State& state, Canvas& canvas) {
  const Items items = items_of(params, state);
  minigrid::draw(params.walls, 2 * params.size, params.size, state.view, state.agent, items.item, 2, canvas);
}

std::vector<ColourMeaning> RedBlueDoors::colours(const Params&) {
  return minigrid::colours({{'R', door(minigrid::kRed, false), "red door"},
                            {'r', door(minigrid::kRed, true), "red door, open"},
                            {'B', door(minigrid::kBlue, false), "blue door"},
                            {'b', door(minigrid::kBlue, true), "blue door, open"}});
}

std::string RedBlueDoors::phase(const Params&, const State& state) {
  return state.red_open ? "to the blue door" : "to the red door";
}

std::optional<Cue> RedBlueDoors::cue(const Params& params, const State& state) {
  if (params.full_state || !state.red_seen || state.view.sees_item(0)) return {};
  if (!state.red_open) return Cue{"red door closed", {}};
  return Cue{"red door open", minigrid::item_colour(door(minigrid::kRed, true))};
}

std::vector<TaskPreset> RedBlueDoors::presets() { return minigrid::sizes(kName, {"6", "8"}); }

template TaskEntry task_entry<RedBlueDoors>();

}  // namespace engram
