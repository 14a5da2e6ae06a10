// JobPool: training runs as processes of their own, several at once. Each is this program as `engram train ... --resume
// auto`, or `engram evaluate ... --keep` where a trained run lacks evaluations, in a process group of its own, with its
// output in a file; it is told to save and stop when this process dies, however that happens.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/experiment.h"
#include "storage/files.h"

namespace engram {

// What the runs of a pool compute on.
struct Machine {
  int jobs = 1;     // processes at once
  int gpus = 0;     // 0: on the CPU; else job slot i sees GPU i % gpus alone
  int threads = 1;  // of the CPU for each job whose settings name no number, at most
};

enum class JobEnd {
  kFinished,  // with its final evaluation, and those of the range
  kTrained,   // with its final evaluation; those of the range are still to be made, by another job
  kStopped,   // saved and left because this program asked it to
  kBusy,      // another program trains in its folder
  kFailed
};

struct FinishedJob {
  const PlannedRun* run;
  JobEnd end;
  std::string reason;  // of a failure, one line
  double seconds;
};

class JobPool {
 public:
  using Clock = std::chrono::steady_clock;
  struct Job {
    const PlannedRun* run;
    pid_t process;
    int slot;
    Clock::time_point begin;
    std::shared_ptr<Descriptor> output;  // what the process prints
    bool trains = true;                  // else it evaluates what is trained
  };

  // `directory`: of the experiment.
  JobPool(std::filesystem::path directory, const Machine& machine);
  // Stops what still runs and waits for it.
  ~JobPool();
  JobPool(const JobPool&) = delete;
  JobPool& operator=(const JobPool&) = delete;

  bool full() const { return static_cast<int>(jobs_.size()) >= machine_.jobs; }
  const std::vector<Job>& jobs() const { return jobs_; }

  // Starts a run, or its evaluations if it is trained, which must outlive its job; not if full(). Removes the record of
  // an earlier failure. Throws FileError or UserError if its output cannot be written or no process can be made.
  void start(const PlannedRun& run);
  // Sends a signal to every job. Those that end from now on by SIGINT or SIGTERM count as stopped.
  void signal(int number);
  // A job that has ended since the last call, without waiting. A failure is recorded in the run's failure file.
  std::optional<FinishedJob> take_finished();

 private:
  FinishedJob finish(const Job& job, int status);

  std::filesystem::path directory_;
  Machine machine_;
  std::vector<Job> jobs_;
  bool stopping_ = false;
};

// The entries of CUDA_VISIBLE_DEVICES, or 0 .. gpus - 1 where it is not set.
std::vector<std::string> visible_gpus(const char* setting, int gpus);

}  // namespace engram
