// The errors that a user meets, each one readable line: control characters in what is quoted are written as
// escapes, and a message longer than kMaxErrorBytes loses its middle.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace engram {

inline constexpr std::size_t kMaxErrorBytes = 2000;

// `text` as described above: with escapes for control characters, in at most kMaxErrorBytes.
std::string one_line(const std::string& text);

// Bad input of any kind. The message names the offending value and what would be right; the program prints it and
// leaves with exit status 2.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(one_line(message)) {}
};

// The machine failed on a file: disk full, quota, input/output error. The message names file and reason, as in
// "'runs/a/config.ini' cannot be written: No space left on device"; exit status 1.
class FileError : public std::runtime_error {
 public:
  explicit FileError(const std::string& message) : std::runtime_error(one_line(message)) {}
};

// Training has come to numbers that are not finite: of a loss, a gradient, the policy or the critics. Other settings
// may do better, another attempt with these does not.
class DivergedError : public std::runtime_error {
 public:
  explicit DivergedError(const std::string& message) : std::runtime_error(one_line(message)) {}
};

}  // namespace engram
