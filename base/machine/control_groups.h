// The control groups (cgroups) that limit what this process may take of the machine, of either version.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace engram {

// What a group's folder says; nothing where it sets no limit. `unified`: of version 2, whose files have other names.
using GroupLimit = std::function<std::optional<double>(const std::string& folder, bool unified)>;

// The tightest limit that the process's group or one above it has, in every hierarchy with the controller ("cpu",
// "memory"). Nothing where there is no limit, or no control group to read. `root`: stands before /proc/self/cgroup,
// /proc/self/mountinfo and the places mounted.
std::optional<double> tightest_group_limit(const std::string& controller, const GroupLimit& limit,
                                           const std::string& root = "");

}  // namespace engram
