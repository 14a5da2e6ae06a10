#include "apps/cli/taken_signals.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <stdexcept>
#include <system_error>

namespace engram {
namespace {

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t set_of(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers)
    if (number != SIGHUP || !is_ignored(number)) sigaddset(&set, number);
  return set;
}

sigset_t block(const sigset_t& set) {
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &set, &before);
  return before;
}

int output_with_a_reader() {
  struct stat output {};
  const bool has_one = ::fstat(STDOUT_FILENO, &output) == 0 && (S_ISFIFO(output.st_mode) || S_ISSOCK(output.st_mode));
  return has_one ? STDOUT_FILENO : -1;
}

[[noreturn]] void fail() {
  throw std::runtime_error("signals cannot be taken: " + std::generic_category().message(errno));
}

}  // namespace

std::string signal_name(int number) { return std::string("SIG") + ::sigabbrev_np(number); }

TakenSignals::TakenSignals(std::initializer_list<int> numbers) : TakenSignals(set_of(numbers)) {
  for (const int number : numbers)
    if (number != SIGHUP) ::signal(number, SIG_DFL);  // one that is ignored might not come
}

TakenSignals::TakenSignals(const sigset_t& set)
    : before_(block(set)),
      signals_(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)),
      read_output_(output_with_a_reader()) {
  if (signals_.number() < 0) {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    fail();
  }
  ::signal(SIGPIPE, SIG_IGN);
}

TakenSignals::~TakenSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<TakenSignals::Signal> TakenSignals::next(std::optional<double> seconds, int also) {
  std::array<pollfd, 3> sources = {pollfd{signals_.number(), POLLIN, 0}, pollfd{read_output_, 0, 0},
                                   pollfd{also, POLLIN, 0}};
  const int milliseconds = seconds ? static_cast<int>(std::lround(1000 * *seconds)) : -1;
  while (::poll(sources.data(), sources.size(), milliseconds) < 0)
    if (errno != EINTR) fail();
  signalfd_siginfo info{};
  if (sources[0].revents != 0 && ::read(signals_.number(), &info, sizeof(info)) == sizeof(info))
    return Signal{static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid)};
  if ((sources[1].revents & (POLLERR | POLLHUP)) != 0) {
    read_output_ = -1;  // said once
    return Signal{SIGPIPE, 0};
  }
  return {};
}

}  // namespace engram
