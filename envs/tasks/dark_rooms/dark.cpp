#include "envs/tasks/dark_rooms/dark.h"

namespace engram::dark {

void RoomOptions::list(OptionList& list) {
  list.add("size", size, {2, kMaxSize}, "side of the square room, in cells");
  list.add("attempt_steps", attempt_steps, {1, 1'000'000}, "longest attempt, in steps");
  list.add("max_steps", max_steps, {1, 1'000'000}, "steps of an episode, those that begin the next attempt included");
  list.add("random_start", random_start, "attempts start in a cell drawn for the episode; false: in the middle");
  list.add("random_actions", random_actions, "which action goes where is drawn anew every episode");
  list_full_state(list, full_state);
}

Room room_of(const RoomOptions& options) {
  return {options.size,         options.attempt_steps,  options.max_steps,
          options.random_start, options.random_actions, options.full_state};
}

std::string phase(const Attempts& attempts) { return attempts.known ? "exploit" : "explore"; }

std::vector<VectorPart> vector_parts(const Room& room, const char* bit, std::initializer_list<const char*> hidden) {
  std::vector<VectorPart> parts = {
      {"row and column, as shares of the size", 2}, {bit}, {"share of the attempt's time"}};
  if (!room.full_state) return parts;
  for (const char* const thing : hidden) parts.push_back({std::string("row and column of ") + thing, 2});
  if (room.random_actions) parts.push_back({"how each action moves them", 2 * kActions});
  return parts;
}

std::vector<ColourMeaning> room_colours() {
  return {{'.', kFloor, "floor"}, {'s', kStart, "start"}, {'@', kPlayer, "agent"}};
}

void draw_room(const Room& room, const Attempts& attempts, Canvas& canvas) {
  canvas.resize(room.size, room.size, kFloor);
  canvas.set(attempts.start.x, attempts.start.y, kStart);
}

}  // namespace engram::dark
