// The processors that this process may use: those that the scheduler may give it, and no more than the CPU time that
// its control groups (cgroups) leave it. hardware_concurrency() knows nothing of the latter.
#pragma once

#include <optional>
#include <string>

namespace engram {

// At least 1; looked up once, by count_processors().
int available_processors();

// Looks now: sched_getaffinity(2), and cgroup_processors() rounded up. At least 1.
int count_processors(const std::string& root = "");

// The tightest limit on CPU time that the process's control group or one above it has, in processors (0.5: half the
// time of one): cpu.max of cgroup v2, cpu.cfs_quota_us over cpu.cfs_period_us of v1. Nothing where there is no limit,
// or no control group to read. `root`: stands before /proc/self/cgroup, /proc/self/mountinfo and the places mounted.
std::optional<double> cgroup_processors(const std::string& root = "");

// What the system calls its processors, the first of them; "unknown processor" where it does not say.
std::string processor_name(const std::string& root = "");

}  // namespace engram
