#include "agents/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace engram {
namespace {

std::filesystem::path path_beside(const std::filesystem::path& file) {
  return file.string() + ".partial" + std::to_string(getpid());
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& reason) {
  throw UserError("'" + file.string() + "' cannot be written: " + reason);
}

std::ofstream open_beside(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) refuse(file, "it is a folder");
  std::ofstream stream(path_beside(file), std::ios::binary | std::ios::trunc);
  if (!stream) refuse(file, std::strerror(errno));
  return stream;
}

}  // namespace

void replace_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write) {
  const std::filesystem::path beside = path_beside(file);
  std::ofstream stream = open_beside(file);
  try {
    write(stream);
    stream.close();
    if (!stream) refuse(file, std::strerror(errno));
    std::filesystem::rename(beside, file);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw;
  }
}

void check_writable(const std::filesystem::path& file) {
  open_beside(file);
  std::filesystem::remove(path_beside(file));
}

}  // namespace engram
