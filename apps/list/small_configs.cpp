#include "apps/list/small_configs.h"

#include <map>

namespace engram {

const SmallConfig* small_config(const std::string& task) {
  static const std::map<std::string, SmallConfig> configs = {
#include "small_configs.inc"  // made by CMake from the files
  };
  const auto found = configs.find(task);
  return found == configs.end() ? nullptr : &found->second;
}

}  // namespace engram
