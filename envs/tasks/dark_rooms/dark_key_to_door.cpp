#include "envs/tasks/dark_rooms/dark_key_to_door.h"

#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

constexpr Rgb kHiddenKey{230, 180, 0}, kHiddenDoor{134, 206, 235};

}  // namespace

void DarkKeyToDoor::draw(const Params& params, const State& state, Canvas& canvas) {
  dark::draw_room(params.room, state.attempts, canvas);
  canvas.set(state.door.x, state.door.y, kHiddenDoor);
  if (!state.has_key) canvas.set(state.key.x, state.key.y, kHiddenKey);
  canvas.set(state.attempts.player.x, state.attempts.player.y, dark::kPlayer);
}

std::vector<ColourMeaning> DarkKeyToDoor::colours(const Params&) {
  std::vector<ColourMeaning> colours = dark::room_colours();
  colours.insert(colours.end(), {{'k', kHiddenKey, "key"}, {'d', kHiddenDoor, "door"}});
  return colours;
}

std::vector<VectorPart> DarkKeyToDoor::vector_parts(const Params& params) {
  return dark::vector_parts(params.room, "has the key (1) or not (0)", {"the door", "the key"});
}

std::vector<TaskPreset> DarkKeyToDoor::presets() {
  return {{"dark_key_to_door_8", kName, {{"size", "8"}}, kSource}, {"dark_key_to_door_9", kName, {}, kSource}};
}

template TaskEntry task_entry<DarkKeyToDoor>();

}  // namespace engram
