// Files that outlive a crash: whole or not there (replace_file), and logs that grow row by row (AppendFile). What these
// functions return from is on the disk as far as the operating system can promise.
//
// A path is taken as the user gives it, "../x" and links to folders on the way included. What stands at the file's own
// place is never written through: a link to a file (or to nothing) is replaced; a folder, device, pipe or socket, or a
// link to one, is refused.
//
// Two errors: UserError for a path that cannot be opened for writing, FileError (base/error.h) where the machine fails
// (disk full, quota, file-size limit, input/output error).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/throw_error.h"

namespace engram {

// A POSIX file descriptor, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int number() const { return number_; }
  int release();  // leaves closing to the caller

 private:
  int number_;
};

// Writes all bytes at an offset, in spite of signals and short writes. Returns 0 or the error number.
int write_all(int descriptor, const char* bytes, std::size_t count, std::uint64_t offset);

// Replaces `file` by what `write` puts into the stream, which can seek: written to NAME.partialPID beside it, synced,
// renamed, and the folder synced. If `write` or the machine fails, the old file stays and the new one is removed (after
// a failed sync of the folder the new one stays); a killed process leaves its NAME.partialPID.
void replace_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write);

// Throws UserError, naming the path, unless replace_file() could write there. Leaves no trace.
void check_writable(const std::filesystem::path& file);

// Removes from `folder` (not from folders in it) what killed processes have left of replace_file(): regular files
// called NAME.partialPID whose process is gone.
void remove_leftovers(const std::filesystem::path& folder);

// A file that only grows, by whole rows.
class AppendFile {
 public:
  // Starts anew (position 0), or goes on at `position` and cuts off what an interrupted run wrote after it.
  // Throws UserError if the file is shorter, or not a regular file.
  explicit AppendFile(const std::filesystem::path& file, std::uint64_t position = 0);

  // One write of all bytes. If it fails, the file is cut back to where it ended before and FileError is thrown; a later
  // append may succeed.
  void append(std::string_view bytes);
  void sync();
  std::uint64_t position() const { return position_; }  // bytes of all whole rows

 private:
  std::filesystem::path file_;
  Descriptor descriptor_;
  std::uint64_t position_;
  bool torn_ = false;  // the cut after a failed write failed as well
};

}  // namespace engram
