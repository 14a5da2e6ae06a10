#include "base/machine/control_groups.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/text/text.h"

namespace engram {
namespace {

constexpr std::string_view kUnified = "cgroup2";  // the file system of v2

// A hierarchy of control groups that the controller is in, and where it can be read.
struct Hierarchy {
  bool unified;       // v2
  std::string group;  // the group that is mounted
  std::string place;  // where
};

bool names(const std::string& list, const std::string& controller) {
  const std::vector<std::string> named = split_text(list, ',');
  return std::ranges::find(named, controller) != named.end();
}

// proc(5): "36 35 98:0 GROUP PLACE options [tags] - TYPE source options", an octal escape for a blank.
std::vector<Hierarchy> hierarchies(const std::string& controller, const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = split_text(line, ' ');
    const auto dash = std::ranges::find(words, "-");
    if (std::distance(words.begin(), dash) < 6 || std::distance(dash, words.end()) < 4) continue;
    const bool unified = dash[1] == kUnified;
    if (unified || (dash[1] == "cgroup" && names(dash[3], controller))) found.push_back({unified, words[3], words[4]});
  }
  return found;
}

// The process's group in the hierarchy, from its mounted group on; empty where it is that one, or lies outside of it.
// cgroups(7): "0::GROUP" of v2, "4:cpu,cpuacct:GROUP" of v1.
std::string group_below(const Hierarchy& hierarchy, const std::string& controller, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (hierarchy.unified ? !controllers.empty() : !names(controllers, controller)) continue;
    std::string group = line.substr(second + 1);
    const std::string above = hierarchy.group == "/" ? "" : hierarchy.group;
    if (!group.starts_with(above + "/") || group.starts_with("/..")) return "";
    group.erase(0, above.size());
    return group == "/" ? "" : group;
  }
  return "";
}

}  // namespace

std::optional<double> tightest_group_limit(const std::string& controller, const GroupLimit& limit,
                                           const std::string& root) {
  std::optional<double> tightest;
  for (const Hierarchy& hierarchy : hierarchies(controller, root)) {
    for (std::string group = group_below(hierarchy, controller, root);; group.erase(group.rfind('/'))) {
      const std::optional<double> own = limit(root + hierarchy.place + group, hierarchy.unified);
      if (own) tightest = std::min(tightest.value_or(*own), *own);
      if (group.empty()) break;
    }
  }
  return tightest;
}

}  // namespace engram
