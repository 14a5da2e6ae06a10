// A limit of file sizes, which is met like a full disk.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace engram {

// While it lives files may have so many bytes, and to write more is an error.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_before_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_before_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_before_)(int);
};

}  // namespace engram
