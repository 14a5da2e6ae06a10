#include "envs/tasks/memory_maze.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "envs/task_entry.h"

namespace engram {
namespace {

constexpr Rgb kFloorInSight{205, 210, 225};  // brighter than any wall

}  // namespace

void MemoryMaze::Options::list_options(OptionList& list) {
  list.add("size", size, {9, maze::kMaxSize}, "side of the maze within its outer wall, in cells; an odd number");
  list.add("objects", objects, {2, kMaxObjects}, "coloured objects, each in a room of its own; at most size / 2 - 1");
  list.add("max_steps", max_steps, {1, 1'000'000}, "steps of an episode");
  list.add("max_rooms", max_rooms, {2, maze::kMaxRooms}, "rooms, where so many fit; no fewer than objects");
  list.add("max_room_size", max_room_size, {3, 5}, "greatest side of a room, in cells; 3 or 5");
  list_full_state(list, full_state);
}

void MemoryMaze::Options::check() const {
  const auto refuse = [](const std::string& option, int value, const std::string& right) {
    throw UserError("task." + option + " = '" + std::to_string(value) + "' is not allowed; it takes " + right);
  };
  if (size % 2 == 0) refuse("size", size, "an odd number 9.." + std::to_string(maze::kMaxSize));
  if (max_room_size % 2 == 0) refuse("max_room_size", max_room_size, "3 or 5");
  if (objects > size / 2 - 1)
    refuse("objects", objects, "2.." + std::to_string(size / 2 - 1) + " in a maze of size " + std::to_string(size));
  if (max_rooms < objects) refuse("max_rooms", max_rooms, "no fewer than the " + std::to_string(objects) + " objects");
}

MemoryMaze::Params MemoryMaze::make_params(const Options& options, std::uint64_t, Purpose) {
  return {options.size,      options.objects,       options.max_steps,
          options.max_rooms, options.max_room_size, options.full_state};
}

void MemoryMaze::draw(const Params& params, const State& state, Canvas& canvas) {
  const int side = params.size + 2;
  canvas.resize(side, side, object_colour(state.target));
  for (int y = 1; y <= params.size; ++y)
    for (int x = 1; x <= params.size; ++x) {
      const maze::Cell cell = {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)};
      canvas.set(y, x,
                 !state.layout.is_floor(x, y) ? wall_colour(params, state, x, y)
                 : sees(state, cell)          ? kFloorInSight
                                              : floor_colour());
    }
  for (int i = 0; i < params.objects; ++i) canvas.set(state.object[i].y, state.object[i].x, object_colour(i));
  canvas.set(state.agent.y, state.agent.x, agent_colour(state.agent.direction));
  canvas.set_arrow({state.agent.y, state.agent.x, static_cast<Facing>(state.agent.direction)});
}

std::vector<ColourMeaning> MemoryMaze::colours(const Params& params) {
  constexpr const char* kNames[kMaxObjects] = {"red", "green", "blue", "violet", "yellow", "pink"};
  std::vector<ColourMeaning> colours = {
      {'.', floor_colour(), "floor"}, {',', kFloorInSight, "floor in sight"}, {' ', {0, 0, 0}, "hidden"}};
  for (int shade = 0; shade < 8; ++shade) {
    const auto level = [&](int channel) { return (shade >> channel & 1) != 0 ? kBright : kDark; };
    colours.push_back({"#%&$=+*~" [shade], { level(0), level(1), level(2) }, "wall"});
  }
  for (int direction = 0; direction < 4; ++direction) colours.push_back({'@', agent_colour(direction), "agent"});
  for (int i = 0; i < params.objects; ++i)
    colours.push_back({kNames[i][0], object_colour(i), std::string(kNames[i]) + " object"});
  return colours;
}

ShownObservation MemoryMaze::shown(const Params& params, const Element* observation) {
  const int side = params.full_state ? params.size + 2 : kImage, cells = side * side;
  ShownObservation shown;
  Canvas& picture = shown.picture.emplace();
  picture.resize(side, side, {});
  if (!params.full_state)
    picture.set_arrow({image_cell(minigrid::kAside) / side, image_cell(minigrid::kAside) % side, Facing::kUp});
  for (int cell = 0; cell < cells; ++cell) {
    const Rgb colour{observation[cell], observation[cells + cell], observation[2 * cells + cell]};
    picture.set(cell / side, cell % side, colour);
    for (int direction = 0; params.full_state && direction < 4; ++direction)
      if (colour == agent_colour(direction))
        picture.set_arrow({cell / side, cell % side, static_cast<Facing>(direction)});
  }
  return shown;
}

std::string MemoryMaze::phase(const Params&, const State& state) {
  return (state.known >> state.target & 1) != 0 ? "return" : "find";
}

std::vector<TaskPreset> MemoryMaze::presets() {
  std::vector<TaskPreset> presets;
  for (int size = 9, objects = 3; size <= 15; size += 2, ++objects) {
    const std::string side = std::to_string(size);
    presets.push_back({"memory_maze_" + side + "x" + side,
                       kName,
                       {{"size", side},
                        {"objects", std::to_string(objects)},
                        {"max_steps", std::to_string(1000 * (objects - 2))},
                        {"max_rooms", size == 15 ? "9" : "6"},
                        {"max_room_size", size == 15 ? "3" : "5"}},
                       kSource});
  }
  return presets;
}

template TaskEntry task_entry<MemoryMaze>();

}  // namespace engram
