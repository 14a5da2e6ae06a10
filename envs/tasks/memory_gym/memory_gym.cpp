#include "envs/tasks/memory_gym/memory_gym.h"

#include <string>
#include <vector>

namespace engram::memory_gym {

VectorPart place_part(const std::string& name, int count) {
  std::vector<std::string> places;
  for (int place = 0; place < count; ++place) places.push_back(std::to_string(place));
  return one_hot_part(name, places);
}

VectorPart direction_part(const std::string& name) { return one_hot_part(name, {"up", "left", "down", "right"}); }

}  // namespace engram::memory_gym
