#include "apps/cli/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <new>

namespace engram {
namespace {

// Passes everything on to a file, which has the buffer.
class FileBuffer : public std::streambuf {
 public:
  explicit FileBuffer(std::FILE* file) : file_(file) {}

 protected:
  int_type overflow(int_type character) override {
    return traits_type::eq_int_type(character, traits_type::eof()) ? traits_type::not_eof(character)
                                                                   : std::fputc(character, file_);
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    return static_cast<std::streamsize>(std::fwrite(bytes, 1, static_cast<std::size_t>(count), file_));
  }
  int sync() override { return std::fflush(file_); }

 private:
  std::FILE* const file_;
};

using Write = ssize_t(void* to, const char* bytes, std::size_t count);

std::FILE* open_file(void* to, Write* write) {
  std::FILE* const file = ::fopencookie(to, "w", {.read = nullptr, .write = write, .seek = nullptr, .close = nullptr});
  if (file == nullptr) throw std::bad_alloc();
  if (::isatty(STDOUT_FILENO) != 0) std::setvbuf(file, nullptr, _IOLBF, BUFSIZ);
  return file;
}

}  // namespace

int open_closed_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // The least descriptor that is free is this one.
    if (::open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0) return errno;
  }
  return 0;
}

int write_to_output(const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // another program has made it one that does not wait
      pollfd output{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&output, 1, -1);
      continue;
    }
    if (written < 0) return errno;
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
  return 0;
}

CheckedOutput::CheckedOutput()
    : stdout_before_(stdout),
      file_(open_file(this, &CheckedOutput::write)),
      buffer_(std::make_unique<FileBuffer>(file_)),
      cout_before_(std::cout.rdbuf(buffer_.get())) {
  stdout = file_;
}

CheckedOutput::~CheckedOutput() {
  flush();
  std::cout.rdbuf(cout_before_);
  stdout = stdout_before_;
  std::fclose(file_);
}

int CheckedOutput::flush() {
  std::fflush(file_);
  return error_;
}

ssize_t CheckedOutput::write(void* self, const char* bytes, std::size_t count) {
  const int error = write_to_output(bytes, count);
  if (error == 0) return static_cast<ssize_t>(count);
  int& first = static_cast<CheckedOutput*>(self)->error_;
  if (first == 0) first = error;
  return 0;
}

}  // namespace engram
