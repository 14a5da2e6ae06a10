// ProcessLauncher: jobs as processes of their own. Each is this program as `engram train ... --resume auto`, of one run
// or of several seeds (--seeds), or `engram evaluate ... --keep` where a trained run lacks evaluations, in a process
// group of its own, with its output in a file; it is told to save and stop when this process dies, however that
// happens.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <list>
#include <string>
#include <vector>

#include "apps/cli/taken_signals.h"
#include "experiments/run/run_all.h"
#include "storage/files.h"

namespace engram {

class ProcessLauncher final : public JobLauncher {
 public:
  // `signals`: SIGCHLD among them, and SIGUSR1, which lets all jobs save and go on; each other one stops them.
  ProcessLauncher(const Machine& machine, TakenSignals& signals);
  // Stops what still runs and waits for it.
  ~ProcessLauncher() override;
  ProcessLauncher(const ProcessLauncher&) = delete;
  ProcessLauncher& operator=(const ProcessLauncher&) = delete;

  // Throws FileError or UserError if output cannot be written or no process can be made.
  void start(const RunJob& job) override;
  bool wait() override;
  std::vector<EndedJob> take_ended() override;

  // The first signal that stopped the jobs; 0: none.
  int stopped_by() const { return stopped_by_; }

 private:
  struct Process {
    RunJob job;
    pid_t id;
    Descriptor output;  // what it prints
  };

  Machine machine_;
  TakenSignals& signals_;
  std::list<Process> processes_;
  int stopped_by_ = 0;
};

// The entries of CUDA_VISIBLE_DEVICES, or 0 .. gpus - 1 where it is not set.
std::vector<std::string> visible_gpus(const char* setting, int gpus);

}  // namespace engram
