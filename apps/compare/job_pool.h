// JobPool: training runs as processes of their own, several at once. Each is this program as `engram train ... --resume
// auto`, of one run or of several seeds (--seeds), or `engram evaluate ... --keep` where a trained run lacks
// evaluations, in a process group of its own, with its output in a file; it is told to save and stop when this process
// dies, however that happens.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "experiments/plan/experiment.h"
#include "storage/files.h"

namespace engram {

// What the runs of a pool compute on.
struct Machine {
  int jobs = 1;           // processes at once
  int seeds_per_job = 1;  // of a task and a backbone that a process trains at once, at most
  int gpus = 0;           // 0: on the CPU; else job slot i sees GPU i % gpus alone
  int threads = 1;        // of the CPU for each run whose settings name no number, at most

  int runs_at_once() const { return jobs * seeds_per_job; }  // at most
};

enum class JobEnd {
  kFinished,  // with its final evaluation, and those of the range
  kTrained,   // with its final evaluation; those of the range are still to be made, by another job
  kStopped,   // saved and left because this program asked it to
  kBusy,      // another program trains in its folder
  kApart,     // its job of several seeds was refused because of one of them: each is to be started by itself
  kFailed
};

// What became of a run of a job.
struct FinishedRun {
  const PlannedRun* run;
  JobEnd end;
  std::string reason;  // of a failure, one line
  double seconds;
};

class JobPool {
 public:
  using Clock = std::chrono::steady_clock;
  struct Job {
    std::vector<const PlannedRun*> runs;  // seeds of one task and backbone
    pid_t process;
    int slot;
    Clock::time_point begin;
    std::shared_ptr<Descriptor> output;  // what the process prints
    bool trains = true;                  // else it evaluates what is trained, one run
  };

  // `directory`: of the experiment.
  JobPool(std::filesystem::path directory, const Machine& machine);
  // Stops what still runs and waits for it.
  ~JobPool();
  JobPool(const JobPool&) = delete;
  JobPool& operator=(const JobPool&) = delete;

  bool full() const { return static_cast<int>(jobs_.size()) >= machine_.jobs; }
  const std::vector<Job>& jobs() const { return jobs_; }

  // Starts the first of the waiting runs, or its evaluations if it is trained, and with it those of its other seeds
  // that are to be trained, seeds_per_job together; takes them out of `waiting`, which has one; not if full(). They
  // must outlive their job. Removes the records of earlier failures. Throws FileError or UserError if output cannot be
  // written or no process can be made.
  void start(std::deque<const PlannedRun*>& waiting);
  // Sends a signal to every job: SIGUSR1 to save, or one that stops it, and those that end so from now on count as
  // stopped.
  void signal(int number);
  // The runs of the jobs that have ended since the last call, without waiting. A failure is recorded in the run's
  // failure file.
  std::vector<FinishedRun> take_finished();

 private:
  FinishedRun finish(const PlannedRun& run, const Job& job, int status);

  std::filesystem::path directory_;
  Machine machine_;
  std::vector<Job> jobs_;
  std::set<const PlannedRun*> apart_;
  bool stopping_ = false;
};

// The entries of CUDA_VISIBLE_DEVICES, or 0 .. gpus - 1 where it is not set.
std::vector<std::string> visible_gpus(const char* setting, int gpus);

}  // namespace engram
