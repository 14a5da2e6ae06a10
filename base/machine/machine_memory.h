// The memory of the machine that this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace engram {

// Bytes that a new use of memory may take without a swap: what the kernel says is available (MemAvailable of
// /proc/meminfo), and no more than the tightest limit of the process's control groups (memory.max of cgroup v2,
// memory.limit_in_bytes of v1). Nothing where neither can be read. `root`: as of tightest_group_limit().
std::optional<std::int64_t> available_memory(const std::string& root = "");

// "812 bytes", "12.3 MB", "1.46 GB", "3.30 TB", of 10^6, 10^9 and 10^12 bytes.
std::string memory_text(double bytes);

}  // namespace engram
