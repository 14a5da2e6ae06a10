#include "base/processors.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

// A root folder with the files of a process and its control groups.
struct Root {
  TemporaryFolder folder;

  Root(const std::string& mounts, const std::string& groups) {
    write("proc/self/mountinfo", mounts);
    write("proc/self/cgroup", groups);
  }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder / file).parent_path());
    write_text(folder / file, text);
  }
  std::optional<double> processors() const { return cgroup_processors(folder.path().string()); }
};

const std::string kDisk = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";
const std::string kUnified = kDisk + "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
// As a container sees its own groups, without a name space for them.
const std::string kSeparate =
    kDisk +
    "31 22 0:27 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    "32 22 0:28 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro master:11 - cgroup cgroup rw,cpu,cpuacct\n";

}  // namespace

TEST_CASE("cgroup v2: the tightest limit from the process's group up to the root counts") {
  const Root root(kUnified, "0::/user.slice/job.scope\n");
  CHECK_FALSE(root.processors());  // no file at all
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
  CHECK_FALSE(root.processors());
  root.write("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  CHECK(root.processors() == 1.5);
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "400000 100000\n");
  CHECK(root.processors() == 1.5);
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "25000 50000\n");
  CHECK(root.processors() == 0.5);
  root.write("sys/fs/cgroup/user.slice/other.scope/cpu.max", "1000 100000\n");  // somebody else's
  CHECK(root.processors() == 0.5);
}

TEST_CASE("cgroup v2 in a container: its own group is the root") {
  const Root root(kUnified, "0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  CHECK(root.processors() == 2);
  const Root outside(kUnified, "0::/../neighbour\n");
  outside.write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  CHECK(outside.processors() == 3);
}

TEST_CASE("cgroup v1: quota over period of the cpu controller, below what is mounted") {
  const Root root(kSeparate,
                  "5:memory:/docker/ab/deep\n4:cpu,cpuacct:/docker/ab/part\n1:name=systemd:/docker/ab\n0::/\n");
  const std::string group = "sys/fs/cgroup/cpu,cpuacct/";
  root.write(group + "cpu.cfs_quota_us", "-1\n");
  root.write(group + "cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(root.processors());
  root.write(group + "cpu.cfs_quota_us", "350000\n");
  CHECK(root.processors() == 3.5);
  root.write(group + "part/cpu.cfs_quota_us", "50000\n");
  CHECK(root.processors() == 3.5);  // without a period it says nothing
  root.write(group + "part/cpu.cfs_period_us", "200000\n");
  CHECK(root.processors() == 0.25);
}

TEST_CASE("both versions at once, as systemd's hybrid set-up has them") {
  const Root root(kSeparate + "33 22 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
                  "4:cpu,cpuacct:/docker/ab\n0::/job\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(root.processors() == 2);
  root.write("sys/fs/cgroup/unified/job/cpu.max", "100000 100000\n");
  CHECK(root.processors() == 1);
}

TEST_CASE("what cannot be read is no limit") {
  const TemporaryFolder empty;
  CHECK_FALSE(cgroup_processors(empty.path().string()));
  const Root strange("x\n1 2 3 4 5 6 - \n30 22 0:26 / /sys/fs/cgroup rw -\n", "nonsense\n0:\n");
  CHECK_FALSE(strange.processors());
  const Root zero(kUnified, "0::/\n");
  for (const char* text : {"", "0 100000\n", "100000 0\n", "100000\n", "-5 100000\n", "many 100000\n"}) {
    zero.write("sys/fs/cgroup/cpu.max", text);
    CHECK_FALSE(zero.processors());
  }
}

TEST_CASE("processors: as many as the scheduler may give, and no more than the quota, rounded up") {
  const Root root(kUnified, "0::/\n");
  const std::string path = root.folder.path().string();
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
  const Root root("", "");
  CHECK(processor_name(root.folder.path().string()) == "unknown processor");
  root.write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: A\nmodel name\t: Maker Model 7\n\nmodel name\t: Other\n");
  CHECK(processor_name(root.folder.path().string()) == "Maker Model 7");
  for (const char* damaged : {"model name\n", "model name", "model name\t: \n", ""}) {
    CAPTURE(damaged);
    root.write("proc/cpuinfo", damaged);
    CHECK(processor_name(root.folder.path().string()) == "unknown processor");
  }
}
