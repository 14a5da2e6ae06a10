// A terminal that hands over every key at once, and a screen of its own for as long as it is held.
#pragma once

#include <termios.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <vector>

#include "apps/cli/taken_signals.h"

namespace engram {

// While it lives, standard input gives single keys without showing them, and standard output is a second screen without
// a cursor. Its end, whatever brings it about, gives back the terminal as it was. Both must be terminals.
class RawTerminal {
 public:
  // Throws std::runtime_error if the terminal does not allow it.
  RawTerminal();
  ~RawTerminal() { leave(); }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  // The screen's lines, from the top.
  void show(const std::vector<std::string>& lines);
  // Gives the terminal back, stops the program until it is continued, and takes the terminal again.
  void suspend();

 private:
  void enter();
  void leave();

  termios before_{};
  bool entered_ = false;
};

struct TerminalSize {
  std::size_t columns, rows;
};
// Of the terminal that standard output writes to, as it is now; 80 and 24 where it does not say.
TerminalSize terminal_size();

// What comes next from standard input, whatever it is, and of the signals that stop or change a terminal's program:
// while it lives these are taken here (apps/cli/taken_signals.h).
class InputEvents {
 public:
  enum class Kind { kByte, kEnd, kSignal };
  struct Event {
    Kind kind;
    char byte = 0;
    // SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE: to stop; SIGWINCH: another size; SIGTSTP: to be suspended
    int signal = 0;
  };
  // Waits for it. A signal comes before bytes that wait.
  Event next();

 private:
  TakenSignals signals_{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};
  bool terminal_ = ::isatty(STDIN_FILENO) == 1;
  std::string waiting_;
  std::size_t taken_ = 0;
};

}  // namespace engram
