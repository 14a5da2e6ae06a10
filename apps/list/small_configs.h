// Configs that train a small agent of a task within minutes of a CPU: configs/small/TASK.ini, one for each of engram's
// tasks, the ones included that today's learner does not solve at such a size.
#pragma once

#include <string>

namespace engram {

struct SmallConfig {
  std::string file;     // within the repository
  std::string outcome;  // what it reached, and in what time: the first line of the file
};

// Null for a task without one, as those of other people's programs.
const SmallConfig* small_config(const std::string& task);

}  // namespace engram
