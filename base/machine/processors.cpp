#include "base/machine/processors.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <thread>

#include "base/machine/control_groups.h"

namespace engram {
namespace {

// Both in microseconds; "max" and -1 are no limit.
std::optional<double> limit_of(const std::string& folder, bool unified) {
  double quota = 0, period = 0;
  if (unified)
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

std::optional<double> cgroup_processors(const std::string& root) { return tightest_group_limit("cpu", limit_of, root); }

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
