// run_all(): the runs of a comparison and its tuning as jobs, several at once, whatever says what there is to do
// (RunSource) and whatever does a job (JobLauncher), and what became of each run, by its files. It goes on where an
// earlier call was stopped.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "experiments/plan/experiment.h"
#include "experiments/results/earlier_runs.h"
#include "storage/run/run_failure.h"

namespace engram {

// What the runs of a comparison compute on.
struct Machine {
  int jobs = 1;           // programs at once
  int seeds_per_job = 1;  // of a task and a backbone that a program trains at once, at most
  int gpus = 0;           // 0: on the CPU; else job slot i sees GPU i % gpus alone
  int threads = 1;        // of the CPU for each run whose settings name no number, at most

  int runs_at_once() const { return jobs * seeds_per_job; }  // at most
};

// What one program does.
struct RunJob {
  std::vector<const PlannedRun*> runs;  // of one place (PlannedRun::place())
  bool trains = true;                   // else it evaluates what is trained, one run
  int slot = 0;                         // below Machine::jobs, of no other job as long as it lasts
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  bool alone = true;  // no other job has run beside it
};

// A job that has ended.
struct EndedJob {
  enum class How {
    kDone,
    kStopped,  // by a signal
    kRefused,  // something of what it was asked for is wrong, or in use
    kFailed
  };
  int slot;
  How how;
  std::vector<RunFailure> failures;  // run by run why, as far as it has failed; no reason where the program says none
};

// Does jobs: as processes of their own (apps/compare/process_launcher.h), or not at all in a test.
class JobLauncher {
 public:
  virtual ~JobLauncher() = default;
  // At most Machine::jobs at once. The job's runs outlive it.
  virtual void start(const RunJob& job) = 0;
  // Returns when a job has ended, or after some moments. True from when on the jobs have been asked to save what there
  // is, and to end.
  virtual bool wait() = 0;
  // Those that have ended since the last call, without waiting.
  virtual std::vector<EndedJob> take_ended() = 0;
};

enum class RunEnd {
  kFinished,  // with its final evaluation, and those of the range
  kTrained,   // with its final evaluation; those of the range are still to be made, by another job
  kStopped,   // saved and left because it was asked to
  kBusy,      // another program trains in its folder
  kPutOff,    // the GPU let no further program in: it waits until one of the others has ended
  kCrowded,   // memory ran out beside others: it waits until nothing else is left, and then runs by itself
  kApart,     // its job of several seeds was refused because of one of them: each is to be started by itself
  kDiverged,  // its training has, a run's of the comparison; a try that does has failed
  kFailed
};

// What became of a run of a job.
struct EndedRun {
  const PlannedRun* run;
  RunEnd end;
  RunFailure failure;  // of one that has failed or diverged, is put off or crowded
  double seconds;
};

// Says what there is to do, which may depend on what has been done. Runs that it gives outlive the call of run_all().
class RunSource {
 public:
  virtual ~RunSource() = default;
  // Runs to do besides those given before, in their order, or once more: asked at first, and whenever nothing waits and
  // a job is free. When it gives none and nothing runs any more, all is done.
  virtual std::vector<const PlannedRun*> next() = 0;
  // A run that was given is finished, or has diverged or failed.
  virtual void over(const PlannedRun& run) = 0;
};

// Runs that are known from the beginning.
class ListedRuns final : public RunSource {
 public:
  explicit ListedRuns(std::vector<const PlannedRun*> runs) : runs_(std::move(runs)) {}
  std::vector<const PlannedRun*> next() override { return std::exchange(runs_, {}); }
  void over(const PlannedRun&) override {}

 private:
  std::vector<const PlannedRun*> runs_;
};

// Is told how the runs come along.
class RunWatch {
 public:
  virtual ~RunWatch() = default;
  // There are these to do, perhaps some once more: with more steps.
  virtual void added(const std::vector<const PlannedRun*>& runs) = 0;
  // Had ended before, or has by another program.
  virtual void count_ended(const PlannedRun& run, const RunState& state) = 0;
  virtual void started(const PlannedRun& run) = 0;
  virtual void ended(const EndedRun& ended) = 0;
  // Other programs train these, at least one; they are looked at again and again.
  virtual void waits_for(const std::deque<const PlannedRun*>& elsewhere) = 0;
  // Nothing is started any more; so many runs are asked to end. Once.
  virtual void stopping(std::size_t runs) = 0;
  // After every wait.
  virtual void report(const std::vector<RunJob>& jobs) = 0;
};

struct RunsOutcome {
  bool stopped = false;
  std::vector<EndedRun> failed;
  std::vector<const PlannedRun*> diverged;  // in this call or before it, without tries
};

// Starts all runs that have not ended, tries that have diverged among them, in their order, as many jobs at once as the
// machine has: with a run those of its other seeds that are to be trained, seeds_per_job together, or its evaluations
// if it is trained. Where the GPU lets no further program in there are, from then on, no more at once than it had let
// in. What fails goes into the run's failure file, in place of what an earlier attempt left there, and stops no other
// run. Returns when all have ended, or all that had begun when the launcher was told to stop. `earlier`: of runs that
// are no tries. Throws what source and launcher throw, UserError for a folder with a run of other settings, and
// FileError.
RunsOutcome run_all(RunSource& source, const EarlierRuns& earlier, const Machine& machine, JobLauncher& launcher,
                    RunWatch& watch);

}  // namespace engram
