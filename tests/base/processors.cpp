#include "base/machine/processors.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <optional>
#include <string>

#include "tests/base/group_root.h"

using namespace engram;

namespace {

std::optional<double> processors(const GroupRoot& root) { return cgroup_processors(root.path()); }

}  // namespace

TEST_CASE("cgroup v2: the tightest limit from the process's group up to the root counts") {
  const GroupRoot root(kUnified, "0::/user.slice/job.scope\n");
  CHECK_FALSE(processors(root));  // no file at all
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
  CHECK_FALSE(processors(root));
  root.write("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  CHECK(processors(root) == 1.5);
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "400000 100000\n");
  CHECK(processors(root) == 1.5);
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "25000 50000\n");
  CHECK(processors(root) == 0.5);
  root.write("sys/fs/cgroup/user.slice/other.scope/cpu.max", "1000 100000\n");  // somebody else's
  CHECK(processors(root) == 0.5);
}

TEST_CASE("cgroup v2 in a container: its own group is the root") {
  const GroupRoot root(kUnified, "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  CHECK(processors(root) == 2);
  const GroupRoot outside(kUnified, "0::/../neighbour\n");
  outside.write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  CHECK(processors(outside) == 3);
}

TEST_CASE("cgroup v1: quota over period of the cpu controller, below what is mounted") {
  const GroupRoot root(kSeparate,
                       "5:memory:/docker/ab/deep\n4:cpu,cpuacct:/docker/ab/part\n1:name=systemd:/docker/ab\n0::/\n");
  const std::string group = "sys/fs/cgroup/cpu,cpuacct/";
  root.write(group + "cpu.cfs_quota_us", "-1\n");
  root.write(group + "cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(processors(root));
  root.write(group + "cpu.cfs_quota_us", "350000\n");
  CHECK(processors(root) == 3.5);
  root.write(group + "part/cpu.cfs_quota_us", "50000\n");
  CHECK(processors(root) == 3.5);  // without a period it says nothing
  root.write(group + "part/cpu.cfs_period_us", "200000\n");
  CHECK(processors(root) == 0.25);
}

TEST_CASE("both versions at once, as systemd's hybrid set-up has them") {
  const GroupRoot root(kSeparate + "33 22 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
                       "4:cpu,cpuacct:/docker/ab\n0::/job\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(processors(root) == 2);
  root.write("sys/fs/cgroup/unified/job/cpu.max", "100000 100000\n");
  CHECK(processors(root) == 1);
}

TEST_CASE("what cannot be read is no limit") {
  const TemporaryFolder empty;
  CHECK_FALSE(cgroup_processors(empty.path().string()));
  const GroupRoot strange("x\n1 2 3 4 5 6 - \n30 22 0:26 / /sys/fs/cgroup rw -\n", "nonsense\n0:\n");
  CHECK_FALSE(processors(strange));
  const GroupRoot zero(kUnified, "0::/\n");
  for (const char* text : {"", "0 100000\n", "100000 0\n", "100000\n", "-5 100000\n", "many 100000\n"}) {
    zero.write("sys/fs/cgroup/cpu.max", text);
    CHECK_FALSE(processors(zero));
  }
}

TEST_CASE("processors: as many as the scheduler may give, and no more than the quota, rounded up") {
  const GroupRoot root(kUnified, "0::/\n");
  const std::string path = root.path();
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  const int schedulable = CPU_COUNT(&before);
  CHECK(count_processors(path) == schedulable);
  root.write("sys/fs/cgroup/cpu.max", "10000 100000\n");
  CHECK(count_processors(path) == 1);
  root.write("sys/fs/cgroup/cpu.max", "9990000 100000\n");
  CHECK(count_processors(path) == std::min(schedulable, 100));
  if (schedulable >= 2) {
    root.write("sys/fs/cgroup/cpu.max", "101000 100000\n");
    CHECK(count_processors(path) == 2);
  }

  cpu_set_t one;
  CPU_ZERO(&one);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  CHECK(count_processors(path) == 1);
  REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
  CHECK(available_processors() >= 1);
  CHECK(available_processors() <= schedulable);
}

TEST_CASE("a processor is called as the system calls the first one") {
  const GroupRoot root("", "");
  CHECK(processor_name(root.path()) == "unknown processor");
  root.write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: A\nmodel name\t: Maker Model 7\n\nmodel name\t: Other\n");
  CHECK(processor_name(root.path()) == "Maker Model 7");
  for (const char* damaged : {"model name\n", "model name", "model name\t: \n", ""}) {
    CAPTURE(damaged);
    root.write("proc/cpuinfo", damaged);
    CHECK(processor_name(root.path()) == "unknown processor");
  }
}
