// The standard input, output and error of the program.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <streambuf>

namespace engram {

// Opens those that are closed on /dev/null; else a file of the program's would take their place, and what is meant for
// people would be written into it. To be called before anything else opens one. Returns 0 or the error number.
int open_closed_streams();

// Writes all bytes to standard output, past everything that is buffered. Returns 0 or the error number.
int write_to_output(const char* bytes, std::size_t count);

// While it lives, std::cout and stdout are one stream that remembers why it could not be written. One at a time.
class CheckedOutput {
 public:
  CheckedOutput();
  ~CheckedOutput();
  CheckedOutput(const CheckedOutput&) = delete;
  CheckedOutput& operator=(const CheckedOutput&) = delete;

  // Writes what is buffered. Returns 0, or the error number of the first write that has failed.
  int flush();

 private:
  static ssize_t write(void* self, const char* bytes, std::size_t count);

  int error_ = 0;
  std::FILE* const stdout_before_;
  std::FILE* const file_;
  std::unique_ptr<std::streambuf> buffer_;
  std::streambuf* const cout_before_;
};

}  // namespace engram
