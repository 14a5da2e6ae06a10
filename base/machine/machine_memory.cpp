#include "base/machine/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/machine/control_groups.h"
#include "base/text/formatted.h"

namespace engram {
namespace {

// "max", of v2, is no number; v1 has one beyond every machine's.
std::optional<double> limit_in(const std::string& folder, bool unified) {
  double bytes = 0;
  if (std::ifstream(folder + (unified ? "/memory.max" : "/memory.limit_in_bytes")) >> bytes && bytes > 0) return bytes;
  return std::nullopt;
}

// proc(5): "MemAvailable:   12345 kB", of 1024 bytes.
std::optional<double> memory_of_kernel(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    long long kibibytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld kB", &kibibytes) == 1)
      return 1024 * static_cast<double>(kibibytes);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> available_memory(const std::string& root) {
  std::optional<double> least = memory_of_kernel(root);
  if (const auto limit = tightest_group_limit("memory", limit_in, root))
    least = std::min(least.value_or(*limit), *limit);
  if (!least) return std::nullopt;
  return static_cast<std::int64_t>(std::min(*least, 9e18));
}

std::string memory_text(double bytes) {
  for (const auto& [unit, name] : {std::pair(1e12, "TB"), std::pair(1e9, "GB"), std::pair(1e6, "MB")})
    if (bytes >= 0.9995 * unit) {
      const double count = bytes / unit;
      return formatted("%.*f %s", count < 9.995 ? 2 : count < 99.95 ? 1 : 0, count, name);
    }
  return formatted("%.0f bytes", bytes);
}

}  // namespace engram
