// Options of a task as texts, and what is said of wrong ones.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "envs/registry.h"

namespace engram::testing {

using Settings = std::vector<std::pair<std::string, std::string>>;  // option without section -> value

// What is wrong with these options of the task; empty where nothing is.
inline std::string settings_error(const std::string& name, const Settings& settings) {
  TaskConfig task(name);
  OptionList options = task.options();
  try {
    for (const auto& [key, value] : settings) options.set("task." + key, value);
    task.check();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace engram::testing
