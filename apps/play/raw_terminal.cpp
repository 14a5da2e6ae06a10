#include "apps/play/raw_terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "apps/cli/standard_streams.h"
#include "apps/cli/terminal.h"

namespace engram {
namespace {

constexpr const char* kSecondScreen = "\033[?1049h\033[?25l";  // xterm's, and no cursor
constexpr const char* kFirstScreen = "\033[0m\033[?25h\033[?1049l";
constexpr double kHangUpSeconds = 1;
constexpr const char* kHome = "\033[H";
constexpr const char* kEraseLine = "\033[K";  // from the cursor on

// Without an error: a terminal that is gone is noticed where it is read.
void write_out(const std::string& text) { write_to_output(text.data(), text.size()); }

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

}  // namespace

RawTerminal::RawTerminal() {
  if (::tcgetattr(STDIN_FILENO, &before_) != 0) fail("the terminal does not say how it is set");
  enter();
}

void RawTerminal::enter() {
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C and Ctrl-Z still send signals
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON);           // Ctrl-S holds nothing up
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  if (::tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) fail("the terminal cannot be set to give single keys");
  entered_ = true;
  write_out(kSecondScreen);
}

void RawTerminal::leave() {
  if (!entered_) return;
  entered_ = false;
  write_out(kFirstScreen);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void RawTerminal::show(const std::vector<std::string>& lines) {
  std::string text = kHome;
  for (std::size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "" : "\r\n") + lines[i] + kEraseLine;
  write_out(text + kEraseBelow);
}

void RawTerminal::suspend() {
  leave();
  ::kill(::getpid(), SIGSTOP);
  enter();
}

TerminalSize terminal_size() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return {terminal_columns(STDOUT_FILENO).value_or(80), known ? size.ws_row : std::size_t{24}};
}

InputEvents::Event InputEvents::next() {
  for (;;) {
    const bool waits = taken_ < waiting_.size();
    if (const auto signal = signals_.next(waits ? std::optional(0.0) : std::nullopt, STDIN_FILENO))
      return {.kind = Kind::kSignal, .signal = signal->number};
    if (waits) return {.kind = Kind::kByte, .byte = waiting_[taken_++]};
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) {
      // The end of a pseudo-terminal whose other side has closed can be seen a moment before its SIGHUP comes.
      if (terminal_)
        if (const auto signal = signals_.next(kHangUpSeconds)) return {.kind = Kind::kSignal, .signal = signal->number};
      return {.kind = Kind::kEnd};  // a terminal that is gone is an end, too
    }
    waiting_.assign(buffer.data(), static_cast<std::size_t>(count));
    taken_ = 0;
  }
}

}  // namespace engram
