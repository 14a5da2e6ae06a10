#include "apps/cli/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "apps/cli/taken_signals.h"

namespace engram {
namespace {

struct SignalledRuns {
  std::mutex mutex;  // of all that follows
  std::set<Trainer*> trainers;
  bool in_order = false;  // StopSignals live
  int stopped_by = 0;
  bool asked_by_parent = false, asked_by_another = false;
};

// For ever: the thread that takes signals goes on while the program ends.
SignalledRuns& signalled_runs() {
  static auto* const runs = new SignalledRuns;
  return *runs;
}

void end_program_by(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
}

// A batch system signals every process of a job, and `engram compare` passes on what it got itself: the two are one
// request. Only who has asked before asks a second time; and only by the signals that are meant so, for a terminal or a
// reader that goes away says it in several ways.
bool is_second_request(const TakenSignals::Signal& signal, SignalledRuns& runs) {
  if (signal.number != SIGINT && signal.number != SIGTERM) return false;
  bool& asked = signal.sender == ::getppid() ? runs.asked_by_parent : runs.asked_by_another;
  return std::exchange(asked, true);
}

void take(const TakenSignals::Signal& signal) {
  SignalledRuns& runs = signalled_runs();
  const std::lock_guard lock(runs.mutex);
  if (signal.number == SIGUSR1) {
    for (Trainer* const trainer : runs.trainers) trainer->save_soon();
    return;
  }
  if (!runs.in_order || is_second_request(signal, runs)) end_program_by(signal.number);
  if (runs.stopped_by == 0) runs.stopped_by = signal.number;
  for (Trainer* const trainer : runs.trainers) trainer->stop();
}

}  // namespace

void take_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto signals = std::make_unique<TakenSignals>(std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP, SIGUSR1});
    std::thread([signals = std::move(signals)] {
      for (;;)
        if (const auto signal = signals->next()) take(*signal);
    }).detach();
  });
}

StopSignals::StopSignals() {
  SignalledRuns& runs = signalled_runs();
  const std::lock_guard lock(runs.mutex);
  runs.in_order = true;
  runs.stopped_by = 0;
  runs.asked_by_parent = runs.asked_by_another = false;
}
StopSignals::~StopSignals() {
  SignalledRuns& runs = signalled_runs();
  const std::lock_guard lock(runs.mutex);
  runs.in_order = false;
}
int StopSignals::stopped_by() {
  SignalledRuns& runs = signalled_runs();
  const std::lock_guard lock(runs.mutex);
  return runs.stopped_by;
}

SignalledRun::SignalledRun(Trainer& trainer) : trainer_(trainer) {
  SignalledRuns& runs = signalled_runs();
  const std::lock_guard lock(runs.mutex);
  runs.trainers.insert(&trainer_);
  if (runs.stopped_by != 0) trainer_.stop();
}
SignalledRun::~SignalledRun() {
  SignalledRuns& runs = signalled_runs();
  const std::lock_guard lock(runs.mutex);
  runs.trainers.erase(&trainer_);
}

int exit_status(const TrainStatus& status) {
  if (status.stopped != StopReason::kRequest) return 0;
  const int signal = StopSignals::stopped_by();
  return kSignalStatus + (signal != 0 ? signal : SIGTERM);
}

bool is_stopped_status(int status) {
  const int signal = status - kSignalStatus;
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGPIPE;
}

}  // namespace engram
