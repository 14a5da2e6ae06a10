#include "base/machine/machine_memory.h"

#include <doctest/doctest.h>

#include <cstdint>

#include "tests/base/group_root.h"

using namespace engram;

TEST_CASE("memory: what the kernel calls available, and no more than the tightest control group") {
  const GroupRoot root(kUnified, "0::/user.slice/job.scope\n");
  CHECK_FALSE(available_memory(root.path()));
  root.write("proc/meminfo", "MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:      2000 kB\nSwapFree: 900 kB\n");
  CHECK(available_memory(root.path()) == 2'048'000);
  root.write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  CHECK(available_memory(root.path()) == 2'048'000);
  root.write("sys/fs/cgroup/user.slice/job.scope/memory.max", "1000000\n");
  CHECK(available_memory(root.path()) == 1'000'000);
  root.write("sys/fs/cgroup/user.slice/memory.max", "500000\n");
  CHECK(available_memory(root.path()) == 500'000);
  root.write("sys/fs/cgroup/user.slice/memory.max", "900000000\n");
  root.write("sys/fs/cgroup/user.slice/job.scope/memory.max", "900000000\n");
  CHECK(available_memory(root.path()) == 2'048'000);
  root.write("proc/meminfo", "MemAvailable\n");
  CHECK(available_memory(root.path()) == 900'000'000);
}

TEST_CASE("memory of cgroup v1: the limit of the memory controller") {
  const GroupRoot root(kSeparate, "5:memory:/docker/ab/deep\n4:cpu,cpuacct:/docker/ab\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  CHECK(available_memory(root.path()) > (std::int64_t{1} << 60));
  root.write("sys/fs/cgroup/memory/deep/memory.limit_in_bytes", "4096\n");
  CHECK(available_memory(root.path()) == 4096);
  root.write("sys/fs/cgroup/cpu,cpuacct/memory.limit_in_bytes", "1\n");  // another controller's
  CHECK(available_memory(root.path()) == 4096);
}

TEST_CASE("this machine has some memory") { CHECK(available_memory().value_or(0) > 0); }

TEST_CASE("amounts of memory for people") {
  CHECK(memory_text(0) == "0 bytes");
  CHECK(memory_text(999'000) == "999000 bytes");
  CHECK(memory_text(1.234e6) == "1.23 MB");
  CHECK(memory_text(45.67e6) == "45.7 MB");
  CHECK(memory_text(999.4e6) == "999 MB");
  CHECK(memory_text(999.6e6) == "1.00 GB");
  CHECK(memory_text(23.4e9) == "23.4 GB");
  CHECK(memory_text(4.5e15) == "4500 TB");
}
