// RunLock: one program at a time works on a run directory. WorkLock: one does a piece of work.
#pragma once

#include <filesystem>
#include <optional>

#include "storage/files.h"

namespace engram {

// Holds an exclusive lock (flock) on the file "lock" in the folder while it lives; the operating system drops it with
// the process, however that ends. The file stays and holds the number of the last process that had the lock.
class RunLock {
 public:
  // Throws UserError "run directory 'X' is in use by process N" if another holds it, FileError if the file system has
  // no locks.
  explicit RunLock(const std::filesystem::path& folder);

  // Whether a program holds the lock now. Creates and changes nothing; a program that takes the lock at the same time
  // waits a moment. Throws UserError if the file is there and cannot be read.
  static bool held(const std::filesystem::path& folder);

 private:
  Descriptor descriptor_;
};

// Holds an exclusive lock (flock) on a file that it makes and removes. A process that is killed leaves the file, but
// not the lock.
class WorkLock {
 public:
  // Nothing where another one has it. Throws UserError if the file cannot be made, FileError if the file system has no
  // locks.
  static std::optional<WorkLock> take(const std::filesystem::path& file);

  ~WorkLock();
  WorkLock(WorkLock&& other) noexcept = default;
  WorkLock& operator=(WorkLock&&) = delete;

 private:
  WorkLock(std::filesystem::path file, Descriptor descriptor);

  std::filesystem::path file_;
  Descriptor descriptor_;
};

}  // namespace engram
