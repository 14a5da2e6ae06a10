// What SIGINT, SIGTERM and SIGUSR1 do to the runs of engram train.
#pragma once

#include "agents/trainer.h"

namespace engram {

// From now on SIGUSR1 lets all runs save and go on.
void save_on_signal();

// While it lives, SIGINT and SIGTERM end all runs in good order, those that begin later, too, and the second of a
// sender ends the program at once. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // By which of them; 0: by none so far, or by another rank's.
  static int stopped_by();
};

// While it lives, signals reach this run; up to kMostRuns at once, from any threads.
class SignalledRun {
 public:
  static constexpr int kMostRuns = 64;

  explicit SignalledRun(Trainer& trainer);
  ~SignalledRun();
  SignalledRun(const SignalledRun&) = delete;
  SignalledRun& operator=(const SignalledRun&) = delete;

 private:
  int place_;
};

// As a shell reports a program that a signal ended; 0 for a run that came to its end.
int exit_status(const TrainStatus& status);

}  // namespace engram
