// A made-up machine for tests of what control groups say: a folder that stands before /proc and what is mounted.
#pragma once

#include <filesystem>
#include <string>

#include "tests/storage/temporary_folder.h"

namespace engram {

// A root folder with the files of a process and its control groups.
struct GroupRoot {
  TemporaryFolder folder;

  GroupRoot(const std::string& mounts, const std::string& groups) {
    write("proc/self/mountinfo", mounts);
    write("proc/self/cgroup", groups);
  }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder / file).parent_path());
    write_text(folder / file, text);
  }
  std::string path() const { return folder.path().string(); }
};

inline const std::string kDisk = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";
inline const std::string kUnified =
    kDisk + "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
// As a container sees its own groups, without a name space for them.
inline const std::string kSeparate =
    kDisk +
    "31 22 0:27 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    "32 22 0:28 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro master:11 - cgroup cgroup rw,cpu,cpuacct\n";

}  // namespace engram
