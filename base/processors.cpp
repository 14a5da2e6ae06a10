#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "base/text.h"

namespace engram {
namespace {

constexpr std::string_view kUnified = "cgroup2";  // the file system of v2

// A hierarchy of control groups that limits CPU time, and where it can be read.
struct Hierarchy {
  bool unified;       // v2
  std::string group;  // the group that is mounted
  std::string place;  // where
};

bool has_cpu(const std::string& list) {
  const std::vector<std::string> names = split_text(list, ',');
  return std::ranges::find(names, "cpu") != names.end();
}

// proc(5): "36 35 98:0 GROUP PLACE options [tags] - TYPE source options", an octal escape for a blank.
std::vector<Hierarchy> hierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = split_text(line, ' ');
    const auto dash = std::ranges::find(words, "-");
    if (std::distance(words.begin(), dash) < 6 || std::distance(dash, words.end()) < 4) continue;
    const bool unified = dash[1] == kUnified;
    if (unified || (dash[1] == "cgroup" && has_cpu(dash[3]))) found.push_back({unified, words[3], words[4]});
  }
  return found;
}

// The process's group in the hierarchy, from its mounted group on; empty where it is that one, or lies outside of it.
// cgroups(7): "0::GROUP" of v2, "4:cpu,cpuacct:GROUP" of v1.
std::string group_below(const Hierarchy& hierarchy, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (hierarchy.unified ? !controllers.empty() : !has_cpu(controllers)) continue;
    std::string group = line.substr(second + 1);
    const std::string above = hierarchy.group == "/" ? "" : hierarchy.group;
    if (!group.starts_with(above + "/") || group.starts_with("/..")) return "";
    group.erase(0, above.size());
    return group == "/" ? "" : group;
  }
  return "";
}

// Both in microseconds; "max" and -1 are no limit.
std::optional<double> limit_of(const Hierarchy& hierarchy, const std::string& folder) {
  double quota = 0, period = 0;
  if (hierarchy.unified)
    std::ifstream(folder + "/cpu.max") >> quota >> period;
  else if (std::ifstream(folder + "/cpu.cfs_quota_us") >> quota)
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  if (quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

// 0 where the kernel does not say.
int schedulable_processors() {
  for (int most = CPU_SETSIZE; most <= 1 << 20; most *= 2) {
    cpu_set_t* const set = CPU_ALLOC(most);
    if (set == nullptr) return 0;
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const bool too_small = !known && errno == EINVAL;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (!too_small) return count;
  }
  return 0;
}

}  // namespace

std::optional<double> cgroup_processors(const std::string& root) {
  std::optional<double> tightest;
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    for (std::string group = group_below(hierarchy, root);; group.erase(group.rfind('/'))) {
      const std::optional<double> limit = limit_of(hierarchy, root + hierarchy.place + group);
      if (limit) tightest = std::min(tightest.value_or(*limit), *limit);
      if (group.empty()) break;
    }
  }
  return tightest;
}

int count_processors(const std::string& root) {
  int count = schedulable_processors();
  if (count == 0) count = static_cast<int>(std::thread::hardware_concurrency());
  if (const auto limit = cgroup_processors(root); limit && *limit < count) count = static_cast<int>(std::ceil(*limit));
  return std::max(1, count);
}

int available_processors() {
  static const int count = count_processors();
  return count;
}

// proc(5): "model name\t: NAME".
std::string processor_name(const std::string& root) {
  std::ifstream file(root + "/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t first = line.find_first_not_of(" \t", std::min(line.find(':'), line.size() - 1) + 1);
    if (first != std::string::npos) return line.substr(first);
  }
  return "unknown processor";
}

}  // namespace engram
