#include "envs/tasks/minigrid/minigrid_memory.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/task_entry.h"

namespace engram {
namespace {

// Room, hall and the passage across its end.
std::vector<std::string> map_of(int size, int hall_end) {
  std::vector<std::string> map(static_cast<std::size_t>(size), minigrid::open_row(size));
  map.front() = map.back() = std::string(size, '#');
  const int middle = size / 2;
  for (const int side : {-1, 1}) {
    for (int x = 1; x < 5; ++x) map[middle + 2 * side][x] = '#';
    for (int x = 4; x < hall_end; ++x) map[middle + side][x] = '#';
  }
  for (int y = 0; y < size; ++y) {
    if (y != middle) map[y][hall_end] = '#';
    map[y][hall_end + 2] = '#';
  }
  return map;
}

}  // namespace

void MiniGridMemory::Options::list_options(OptionList& list) {
  list.add("size", size, {kMinSize, kMaxSize}, "side of the square that holds room and hall, in cells; an odd number");
  list.add("random_length", random_length, "the hall's length is drawn anew every episode");
  observed.list_options(list);
  list_full_state(list, full_state);
}

void MiniGridMemory::Options::check() const {
  if (size % 2 == 0)
    throw UserError("task.size = '" + std::to_string(size) + "' is not allowed; it takes an odd number " +
                    std::to_string(kMinSize) + ".." + std::to_string(kMaxSize));
}

MiniGridMemory::Params MiniGridMemory::make_params(const Options& options, std::uint64_t, Purpose) {
  Params params{params_of(options, /*steps_per_cell=*/5), {}, options.random_length};
  for (int hall_end = kFirstHallEnd; hall_end <= options.size - 3; ++hall_end)
    params.walls[hall_end - kFirstHallEnd] = minigrid::make_walls(map_of(options.size, hall_end));
  return params;
}

void MiniGridMemory::draw(const Params& params, const State& state, Canvas& canvas) {
  const Items items = items_of(params, state);
  minigrid::draw(walls_of(params, state), params.size, params.size, state.view, state.agent, items.item, 3, canvas);
}

std::vector<ColourMeaning> MiniGridMemory::colours(const Params&) {
  return minigrid::colours({{'k', codes_of(minigrid::kKey), "key"}, {'o', codes_of(minigrid::kBall), "ball"}});
}

std::string MiniGridMemory::phase(const Params&, const State& state) {
  return state.agent.x < kFirstHallEnd ? "room" : state.agent.x <= state.hall_end ? "hall" : "choice";
}

std::optional<Cue> MiniGridMemory::cue(const Params& params, const State& state) {
  if (params.full_state || !state.object_seen || state.view.sees_item(0)) return {};
  return Cue{state.object == minigrid::kKey ? "key" : "ball", minigrid::item_colour(codes_of(state.object))};
}

std::vector<TaskPreset> MiniGridMemory::presets() {
  std::vector<TaskPreset> presets;
  for (const char* size : {"7", "9", "11", "13"})
    presets.push_back({std::string("minigrid_memory_s") + size, kName, {{"size", size}}, minigrid::kSource});
  for (const char* size : {"13", "17"})
    presets.push_back({std::string("minigrid_memory_s") + size + "_random",
                       kName,
                       {{"size", size}, {"random_length", "true"}},
                       minigrid::kSource});
  return presets;
}

template TaskEntry task_entry<MiniGridMemory>();

}  // namespace engram
