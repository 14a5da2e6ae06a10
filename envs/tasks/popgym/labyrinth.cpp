#include "envs/tasks/popgym/labyrinth.h"

#include <string>
#include <vector>

#include "base/error.h"

namespace engram::labyrinth {

void list_options(OptionList& list, int& size, int& episode_length, bool& full_state) {
  list.add("size", size, {kMinSize, kMaxSize}, "even; the maze is one cell wider and higher, outer walls included");
  list.add("episode_length", episode_length, {2, 1'000'000}, "one more than the steps after which an episode is cut");
  list_full_state(list, full_state);
}

void check_size(int size) {
  if (size % 2 != 0)
    throw UserError("task.size = '" + std::to_string(size) + "' is not allowed; it takes an even number");
}

std::vector<VectorPart> vector_parts(int side, bool full_state, const std::string& more) {
  std::vector<VectorPart> parts;
  for (const char* const row : {"upper", "middle", "lower"})
    for (const char* const column : {"left", "middle", "right"})
      parts.push_back(one_hot_part(std::string(row) + " row, " + column, {"free", "wall", "start", "goal", "hidden"}));
  parts.push_back(one_hot_part("the last action", {"left", "right", "up", "down", "none"}));
  return with_full_state(full_state, parts, {{"the maze: can be walked on, the agent, " + more, 3 * side * side}});
}

}  // namespace engram::labyrinth
