// What signals do to the runs of engram train.
#pragma once

#include "agents/run/training/trainer.h"

namespace engram {

// From now on, to the end of the program, a thread that computes nothing takes the signals: SIGUSR1 lets all runs save
// and go on; SIGINT, SIGTERM, SIGHUP and a closed pipe behind standard output (as SIGPIPE) end the program at once, or
// as StopSignals have it. To be called before there are other threads (apps/cli/taken_signals.h).
void take_signals();

// While it lives, what would end the program ends all runs in good order, those that begin later, too; the second
// SIGINT or SIGTERM of a sender ends the program at once. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // By which of them the runs were ended; 0: by none so far, or by another rank's.
  static int stopped_by();
};

// While it lives, signals reach this run; any number at once, from any threads.
class SignalledRun {
 public:
  explicit SignalledRun(Trainer& trainer);
  ~SignalledRun();
  SignalledRun(const SignalledRun&) = delete;
  SignalledRun& operator=(const SignalledRun&) = delete;

 private:
  Trainer& trainer_;
};

// As a shell reports a program that a signal ended; 0 for a run that came to its end.
int exit_status(const TrainStatus& status);
// Whether exit_status() gives it for a run that was stopped from outside.
bool is_stopped_status(int status);

}  // namespace engram
