#include "experiments/report/paper/gnuplot.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "base/error.h"
#include "storage/files.h"

extern char** environ;

namespace engram {
namespace {

constexpr std::size_t kMaxSaid = 1 << 16;

class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// With the file-size signal that this program ignores: gnuplot would not tell that its plots are cut off.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

std::string read_all(int descriptor) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    if (text.size() < kMaxSaid) text.append(buffer, static_cast<std::size_t>(count));
  }
}

// The first line with anything on it that is not gnuplot's pointing at a place.
std::string first_words(const std::string& said) {
  std::size_t begin = 0;
  while (begin < said.size()) {
    const std::size_t end = std::min(said.find('\n', begin), said.size());
    const std::string line = said.substr(begin, end - begin);
    if (line.find_first_not_of(" \t^") != std::string::npos && line.find("line ") != std::string::npos) return line;
    begin = end + 1;
  }
  return said.substr(0, said.find('\n'));
}

}  // namespace

std::string run_gnuplot(const std::vector<std::string>& arguments, const std::filesystem::path& folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_error("a pipe to gnuplot", errno);
  const Descriptor from(ends[0]);
  pid_t process = 0;
  int error = 0;
  {
    const Descriptor to(ends[1]);
    SpawnActions actions;
    posix_spawn_file_actions_addchdir_np(actions.get(), folder.c_str());
    posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(actions.get(), to.number(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(actions.get(), to.number(), STDERR_FILENO);
    std::vector<std::string> words = {"gnuplot", "-d"};  // without the user's own settings
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    error = posix_spawnp(&process, "gnuplot", actions.get(), SpawnAttributes().get(), argv.data(), environ);
  }
  if (error == ENOENT)
    throw GnuplotError("plots are drawn by gnuplot, which is not on the PATH; install it (Debian: gnuplot-nox)");
  if (error != 0) throw GnuplotError("gnuplot cannot be run: " + std::system_category().message(error));
  const std::string said = read_all(from.number());
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) throw std::runtime_error(std::string("gnuplot failed: ") + ::strsignal(WTERMSIG(status)));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw GnuplotError("gnuplot failed: " + one_line(first_words(said)));
  return said;
}

std::string gnuplot_string(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'')
      quoted += "''";
    else
      quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return quoted + "'";
}

}  // namespace engram
