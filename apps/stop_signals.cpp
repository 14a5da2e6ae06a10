#include "apps/stop_signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <stdexcept>
#include <string>

namespace engram {
namespace {

// The handlers may touch nothing but the trainers' flags and these.
std::array<std::atomic<Trainer*>, SignalledRun::kMostRuns> g_runs;
std::atomic<int> g_handlers_at_work;  // a run waits for them before its trainer goes
volatile std::sig_atomic_t g_stopped_by = 0;
volatile std::sig_atomic_t g_asked_by_parent = 0, g_asked_by_another = 0;
static_assert(std::atomic<Trainer*>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void for_each_run(void (Trainer::*what)()) {
  ++g_handlers_at_work;
  for (const std::atomic<Trainer*>& run : g_runs)
    if (Trainer* const trainer = run) (trainer->*what)();
  --g_handlers_at_work;
}

// A batch system signals every process of a job, and `engram compare` passes on what it got itself: the two are one
// request. Only who has asked before asks a second time.
void handle_stop(int signal, siginfo_t* sender, void*) {
  volatile std::sig_atomic_t& asked = sender->si_pid == ::getppid() ? g_asked_by_parent : g_asked_by_another;
  if (asked != 0) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // takes effect when this returns
    return;
  }
  asked = 1;
  g_stopped_by = signal;
  for_each_run(&Trainer::stop);
}
void handle_save(int) { for_each_run(&Trainer::save_soon); }

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}
void set_handler(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void save_on_signal() { set_handler(SIGUSR1, handle_save); }

StopSignals::StopSignals() {
  for (auto* const flag : {&g_stopped_by, &g_asked_by_parent, &g_asked_by_another}) *flag = 0;
  for (const int signal : {SIGINT, SIGTERM}) set_handler(signal, handle_stop);
}
StopSignals::~StopSignals() {
  for (const int signal : {SIGINT, SIGTERM}) set_handler(signal, SIG_DFL);
}
int StopSignals::stopped_by() { return g_stopped_by; }

SignalledRun::SignalledRun(Trainer& trainer) : place_(0) {
  for (Trainer* none = nullptr; !g_runs.at(place_).compare_exchange_strong(none, &trainer); none = nullptr)
    if (++place_ == kMostRuns) throw std::logic_error("more than " + std::to_string(kMostRuns) + " runs at once");
  if (g_stopped_by != 0) trainer.stop();
}
SignalledRun::~SignalledRun() {
  g_runs.at(place_) = nullptr;
  while (g_handlers_at_work != 0) {  // of other threads: a handler of this one has returned
  }
}

int exit_status(const TrainStatus& status) {
  constexpr int kSignalStatus = 128;
  if (status.stopped != StopReason::kRequest) return 0;
  return kSignalStatus + (g_stopped_by != 0 ? g_stopped_by : SIGTERM);
}

}  // namespace engram
