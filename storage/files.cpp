#include "storage/files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <ios>
#include <iterator>
#include <streambuf>
#include <system_error>
#include <utility>
#include <vector>

namespace engram {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial";
constexpr std::size_t kBufferBytes = 1 << 16;
constexpr mode_t kMode = 0666;  // less the umask

fs::path path_beside(const fs::path& file) { return file.string() + std::string(kPartial) + std::to_string(getpid()); }

// Whether no process of this number runs. One that has ended stays known until its parent asks how, and a killed
// command's children may have a parent that never does.
bool is_gone(pid_t process) {
  if (::kill(process, 0) != 0) return errno == ESRCH;
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  const std::size_t name_end = text.rfind(')');  // the state follows the name, which may hold anything
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] == 'Z';
}

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : "."; }

std::string cannot_write(const fs::path& file) {
  std::string text = "'";
  return text.append(file.string()).append("' cannot be written");
}

[[noreturn]] void fail(const fs::path& file, int error) {
  throw FileError(cannot_write(file) + ": " + std::generic_category().message(error));
}

[[noreturn]] void refuse(const fs::path& file, const std::string& reason) {
  throw UserError(cannot_write(file) + ": " + reason);
}

// Repeats a call that a signal has interrupted.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Returns 0 or the error number.
int sync_file(int descriptor) {
  return uninterrupted([&] { return ::fsync(descriptor); }) == 0 ? 0 : errno;
}

void sync_folder(const fs::path& file) {
  const Descriptor folder(
      uninterrupted([&] { return ::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  // A folder that may be written but not read cannot be synced; nor can those of some file systems (EINVAL).
  if (folder.number() < 0 && errno == EACCES) return;
  if (folder.number() < 0) fail(file, errno);
  if (const int error = sync_file(folder.number()); error != 0 && error != EINVAL) fail(file, error);
}

// Writes through to a descriptor; throws FileError, naming `file`, at the first write that fails.
class DescriptorBuffer : public std::streambuf {
 public:
  DescriptorBuffer(int descriptor, const fs::path& file) : descriptor_(descriptor), file_(file), buffer_(kBufferBytes) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
  }

 protected:
  int sync() override {
    write(pbase(), static_cast<std::size_t>(pptr() - pbase()));
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return 0;
  }
  int_type overflow(int_type byte) override {
    sync();
    if (!traits_type::eq_int_type(byte, traits_type::eof())) sputc(traits_type::to_char_type(byte));
    return traits_type::not_eof(byte);
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    if (count <= epptr() - pptr()) {
      std::copy_n(bytes, count, pptr());
      pbump(static_cast<int>(count));
    } else {
      sync();
      write(bytes, static_cast<std::size_t>(count));
    }
    return count;
  }
  pos_type seekoff(off_type offset, std::ios_base::seekdir from, std::ios_base::openmode) override {
    if (from == std::ios_base::end) return pos_type(off_type(-1));
    sync();
    return seekpos((from == std::ios_base::cur ? static_cast<off_type>(offset_) : 0) + offset, std::ios_base::out);
  }
  pos_type seekpos(pos_type position, std::ios_base::openmode) override {
    sync();
    offset_ = static_cast<std::uint64_t>(off_type(position));
    return position;
  }

 private:
  void write(const char* bytes, std::size_t count) {
    if (const int error = write_all(descriptor_, bytes, count, offset_)) fail(file_, error);
    offset_ += count;
  }

  int descriptor_;
  const fs::path& file_;
  std::vector<char> buffer_;
  std::uint64_t offset_ = 0;
};

// Creates an empty file beside `file` that is nobody else's: neither a link nor a file that was there before.
Descriptor open_beside(const fs::path& file) {
  std::error_code error;
  const fs::file_type type = fs::status(file, error).type();  // of what a link leads to
  if (type == fs::file_type::directory) refuse(file, "it is a folder");
  if (type != fs::file_type::regular && type != fs::file_type::not_found && type != fs::file_type::none)
    refuse(file, "it is not a regular file");
  if (!file.has_filename()) refuse(file, "it does not name a file");
  const fs::path beside = path_beside(file);
  const auto create = [&] {
    return uninterrupted(
        [&] { return ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kMode); });
  };
  int descriptor = create();
  // A file of that name may be left from a killed process that had the same process number.
  if (descriptor < 0 && errno == EEXIST && ::unlink(beside.c_str()) == 0) descriptor = create();
  if (descriptor < 0) throw_error(cannot_write(file), errno);
  return Descriptor(descriptor);
}

// Opens without waiting (a pipe) or following (a link).
int open_to_append(const fs::path& file, bool anew) {
  const int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (anew ? O_CREAT : 0);
  const int descriptor = uninterrupted([&] { return ::open(file.c_str(), flags, kMode); });
  if (descriptor < 0 && errno == ELOOP) refuse(file, "it is a symbolic link");
  if (descriptor < 0) throw_error(cannot_write(file), errno);
  return descriptor;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

int Descriptor::release() { return std::exchange(number_, -1); }

int write_all(int descriptor, const char* bytes, std::size_t count, std::uint64_t offset) {
  while (count > 0) {
    const ssize_t written =
        uninterrupted([&] { return ::pwrite(descriptor, bytes, count, static_cast<off_t>(offset)); });
    if (written < 0) return errno;
    if (written == 0) return EIO;  // nothing went out and nothing says why
    bytes += written;
    count -= static_cast<std::size_t>(written);
    offset += static_cast<std::uint64_t>(written);
  }
  return 0;
}

void replace_file(const fs::path& file, const std::function<void(std::ostream&)>& write) {
  const fs::path beside = path_beside(file);
  Descriptor descriptor = open_beside(file);
  try {
    DescriptorBuffer buffer(descriptor.number(), file);
    std::ostream stream(&buffer);
    stream.exceptions(std::ios::badbit);  // lets the buffer's FileError through
    write(stream);
    stream.flush();
    if (const int error = sync_file(descriptor.number())) fail(file, error);
    if (::close(descriptor.release()) != 0 && errno != EINTR) fail(file, errno);
    if (uninterrupted([&] { return ::rename(beside.c_str(), file.c_str()); }) != 0) fail(file, errno);
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
  sync_folder(file);
}

void check_writable(const fs::path& file) {
  const Descriptor descriptor = open_beside(file);
  ::unlink(path_beside(file).c_str());
}

void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::size_t dot = name.rfind(kPartial);
    if (dot == std::string::npos || dot == 0) continue;
    const char* const digits = name.data() + dot + kPartial.size();
    const char* const end_of_name = name.data() + name.size();
    pid_t process = 0;
    const auto parsed = std::from_chars(digits, end_of_name, process);
    const bool named = parsed.ec == std::errc{} && parsed.ptr == end_of_name && process > 0;
    std::error_code ignored;
    if (named && entry->symlink_status(ignored).type() == fs::file_type::regular && is_gone(process))
      ::unlink(entry->path().c_str());
  }
  if (error) throw_error("'" + folder.string() + "' cannot be read", error.value());
}

AppendFile::AppendFile(const fs::path& file, std::uint64_t position)
    : file_(file), descriptor_(open_to_append(file, position == 0)), position_(position) {
  struct stat status {};
  if (::fstat(descriptor_.number(), &status) != 0) fail(file_, errno);
  if (!S_ISREG(status.st_mode)) refuse(file_, "it is not a regular file");
  if (static_cast<std::uint64_t>(status.st_size) < position_)
    throw UserError("'" + file_.string() + "' has " + std::to_string(status.st_size) +
                    " bytes, but the run that it belongs to had written " + std::to_string(position_));
  if (uninterrupted([&] { return ::ftruncate(descriptor_.number(), static_cast<off_t>(position_)); }) != 0)
    fail(file_, errno);
}

void AppendFile::append(std::string_view bytes) {
  const auto cut = [this] {
    return uninterrupted([&] { return ::ftruncate(descriptor_.number(), static_cast<off_t>(position_)); });
  };
  if (torn_ && cut() != 0) fail(file_, errno);
  torn_ = false;
  if (const int error = write_all(descriptor_.number(), bytes.data(), bytes.size(), position_)) {
    torn_ = cut() != 0;
    fail(file_, error);
  }
  position_ += bytes.size();
}

void AppendFile::sync() {
  if (const int error = sync_file(descriptor_.number())) fail(file_, error);
}

}  // namespace engram
