// Signals are taken one by one by who waits for them; no command has a handler. A handler would run on the stack of
// whatever thread it interrupts, and code that keeps data below its stack pointer, as oneDNN's does on processors with
// AVX-512, would find that overwritten.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "storage/files.h"

namespace engram {

// As a shell reports a program that a signal ended: this and the signal's number.
inline constexpr int kSignalStatus = 128;
// "SIGINT"
std::string signal_name(int number);

class TakenSignals {
 public:
  struct Signal {
    int number;
    pid_t sender;  // 0: the system
  };

  // Blocks these signals in this thread and in those that it begins from now on, so there are to be no others yet.
  // SIGHUP is left alone where the program was started with it ignored, as nohup does. A reader of standard output that
  // goes away counts as a SIGPIPE; writing to it is an error from now on, and no signal any more.
  explicit TakenSignals(std::initializer_list<int> numbers);
  // Unblocks them again in this thread.
  ~TakenSignals();
  TakenSignals(const TakenSignals&) = delete;
  TakenSignals& operator=(const TakenSignals&) = delete;

  // Waits for the next one. None when `seconds` are over, or when the descriptor `also` can be read.
  std::optional<Signal> next(std::optional<double> seconds = {}, int also = -1);

 private:
  explicit TakenSignals(const sigset_t& set);

  sigset_t before_;
  Descriptor signals_;
  int read_output_;  // the descriptor of standard output as long as it has a reader that may go away; -1: it has none
};

}  // namespace engram
