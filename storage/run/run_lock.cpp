#include "storage/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace engram {
namespace {

// The process number that the holder has written; empty for a moment before it has.
std::string holder(int descriptor) {
  char text[21];
  const ssize_t count = ::pread(descriptor, text, sizeof(text) - 1, 0);
  const std::string number(text, count > 0 ? static_cast<std::size_t>(count) : 0);
  return number.substr(0, number.find_first_not_of("0123456789"));
}

[[noreturn]] void throw_unlockable(const std::filesystem::path& file) {
  throw FileError("'" + file.string() + "' cannot be locked: " + std::generic_category().message(errno));
}

// Tries every 10 ms, for as long as the lock of a run may be held by a program that only looks.
constexpr int kPatience = 5;

// Nothing where another one has the lock, after so many more tries.
std::optional<Descriptor> open_locked(const std::filesystem::path& file, int patience) {
  for (;;) {
    Descriptor descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    if (descriptor.number() < 0) throw_error("'" + file.string() + "' cannot be written", errno);
    while (::flock(descriptor.number(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) throw_unlockable(file);
      if (patience-- == 0) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    // The file may have been removed, alone or with its folder, between the two calls: then the lock keeps nobody out.
    struct stat locked {
    }, there{};
    if (::fstat(descriptor.number(), &locked) == 0 && ::stat(file.c_str(), &there) == 0 &&
        locked.st_dev == there.st_dev && locked.st_ino == there.st_ino)
      return descriptor;
  }
}

Descriptor lock_of_run(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "lock";
  if (std::optional<Descriptor> locked = open_locked(file, kPatience)) return std::move(*locked);
  const Descriptor reading(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const std::string number = holder(reading.number());
  throw UserError("run directory '" + folder.string() + "' is in use by " +
                  (number.empty() ? "another process" : "process " + number));
}

}  // namespace

bool RunLock::held(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "lock";
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (descriptor.number() < 0) {
    if (errno == ENOENT) return false;
    throw_error("'" + file.string() + "' cannot be read", errno);
  }
  // A shared lock, so that several may look at once; it ends with the descriptor.
  while (::flock(descriptor.number(), LOCK_SH | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return true;
    if (errno != EINTR) throw_unlockable(file);
  }
  return false;
}

RunLock::RunLock(const std::filesystem::path& folder) : descriptor_(lock_of_run(folder)) {
  const std::string number = std::to_string(getpid()) + "\n";
  int error = ::ftruncate(descriptor_.number(), 0) == 0 ? 0 : errno;
  if (error == 0) error = write_all(descriptor_.number(), number.data(), number.size(), 0);
  if (error == 0) return;
  ::unlink((folder / "lock").c_str());
  throw FileError("'" + (folder / "lock").string() + "' cannot be written: " + std::generic_category().message(error));
}

std::optional<WorkLock> WorkLock::take(const std::filesystem::path& file) {
  std::optional<Descriptor> locked = open_locked(file, /*patience=*/0);
  if (!locked) return std::nullopt;
  return WorkLock(file, std::move(*locked));
}

WorkLock::WorkLock(std::filesystem::path file, Descriptor descriptor)
    : file_(std::move(file)), descriptor_(std::move(descriptor)) {}

// One that was moved has no descriptor.
WorkLock::~WorkLock() {
  if (descriptor_.number() >= 0) ::unlink(file_.c_str());
}

}  // namespace engram
