#include "experiments/run/run_all.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "storage/run/run_lock.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

using RunClock = std::chrono::steady_clock;

constexpr double kLookElsewhereSeconds = 2;

double seconds_since(RunClock::time_point begin) {
  return std::chrono::duration<double>(RunClock::now() - begin).count();
}

bool in_use(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) && RunLock::held(folder);
}

class Running {
 public:
  Running(RunSource& source, const EarlierRuns& earlier, const Machine& machine, JobLauncher& launcher, RunWatch& watch)
      : source_(source),
        earlier_(earlier),
        machine_(machine),
        launcher_(launcher),
        watch_(watch),
        jobs_at_once_(static_cast<std::size_t>(machine.jobs)) {}

  RunsOutcome all() {
    auto last_look = RunClock::now();
    while (true) {
      while (may_start() && (!waiting_.empty() || take_more()))
        if (!waiting_.empty()) start_next();
      if (may_start() && jobs_.empty() && !crowded_.empty()) start_by_itself();
      if (jobs_.empty() && (outcome_.stopped || (waiting_.empty() && elsewhere_.empty()))) break;
      if (launcher_.wait() && !std::exchange(outcome_.stopped, true)) watch_.stopping(running());
      for (const EndedJob& ended : launcher_.take_ended()) end_job(ended);
      watch_.report(jobs_);
      if (elsewhere_.empty() || seconds_since(last_look) < kLookElsewhereSeconds) continue;
      last_look = RunClock::now();
      for (const PlannedRun* run : std::exchange(elsewhere_, {})) sort_in(run, read_run_state(*run));
    }
    return std::move(outcome_);
  }

 private:
  // Whether the source had some.
  bool take_more() {
    const std::vector<const PlannedRun*> runs = source_.next();
    if (runs.empty()) return false;
    watch_.added(runs);
    const std::size_t elsewhere = elsewhere_.size();
    for (const PlannedRun* run : runs)
      sort_in(run, run->try_number > 0 ? read_run_state(*run) : read_run_state(*run, earlier_));
    if (elsewhere == 0 && !elsewhere_.empty()) watch_.waits_for(elsewhere_);
    return true;
  }

  void sort_in(const PlannedRun* run, const RunState& state) {
    const bool diverged = state.diverged() && run->try_number == 0;  // its rung decides what a try that has means
    if (state.stage == RunStage::kFinished || diverged) {
      if (diverged) outcome_.diverged.push_back(run);
      watch_.count_ended(*run, state);
      source_.over(*run);
    } else {
      (state.running ? elsewhere_ : waiting_).push_back(run);
    }
  }

  std::size_t running() const {
    std::size_t runs = 0;
    for (const RunJob& job : jobs_) runs += job.runs.size();
    return runs;
  }

  // A folder of something else is left to the job, which says what is wrong with it.
  bool is_trained(const PlannedRun& run) const {
    try {
      return read_run_state(run).trained;
    } catch (const UserError&) {
      return false;
    }
  }

  bool may_start() const { return !outcome_.stopped && jobs_.size() < jobs_at_once_ && by_itself_ == nullptr; }

  // The first crowded run.
  void start_by_itself() {
    by_itself_ = crowded_.front();
    crowded_.pop_front();
    waiting_.push_front(by_itself_);
    start_next();
  }

  void start_next() {
    const PlannedRun& run = *waiting_.front();
    waiting_.pop_front();
    const auto trains_now = [&](const PlannedRun& any) { return !any.range || !is_trained(any); };
    RunJob job{.runs = {&run}, .trains = trains_now(run), .alone = jobs_.empty()};
    while (std::ranges::count(jobs_, job.slot, &RunJob::slot) > 0) ++job.slot;
    const int most = job.trains && !apart_.contains(&run) ? machine_.seeds_per_job : 1;
    const auto joins = [&](const PlannedRun* other) {
      return other->place() == run.place() && !apart_.contains(other) && trains_now(*other);
    };
    while (static_cast<int>(job.runs.size()) < most) {
      const auto other = std::ranges::find_if(waiting_, joins);
      if (other == waiting_.end()) break;
      job.runs.push_back(*other);
      waiting_.erase(other);
    }
    std::error_code ignored;
    for (const PlannedRun* own : job.runs) fs::remove(failure_file(*own), ignored);
    for (RunJob& other : jobs_) other.alone = false;
    launcher_.start(job);
    for (const PlannedRun* own : job.runs) watch_.started(*own);
    jobs_.push_back(std::move(job));
  }

  void end_job(const EndedJob& ended) {
    const auto found = std::ranges::find(jobs_, ended.slot, &RunJob::slot);
    const RunJob job = std::move(*found);
    jobs_.erase(found);
    for (std::size_t i = 0; i < job.runs.size(); ++i) {
      const EndedRun run = end_run(*job.runs[i], job, ended.how, ended.failures[i]);
      if (run.run == by_itself_) by_itself_ = nullptr;
      watch_.ended(run);
      if (run.end == RunEnd::kFailed) outcome_.failed.push_back(run);
      if (run.end == RunEnd::kDiverged) outcome_.diverged.push_back(run.run);
      if (run.end == RunEnd::kFailed || run.end == RunEnd::kDiverged || run.end == RunEnd::kFinished)
        source_.over(*run.run);
      if (run.end == RunEnd::kBusy) elsewhere_.push_back(run.run);
      if (run.end == RunEnd::kTrained || run.end == RunEnd::kApart || run.end == RunEnd::kPutOff)
        waiting_.push_front(run.run);
      if (run.end == RunEnd::kCrowded) crowded_.push_back(run.run);
    }
  }

  EndedRun end_run(const PlannedRun& run, const RunJob& job, EndedJob::How how, const RunFailure& failure) {
    EndedRun ended{&run, RunEnd::kFailed, {}, seconds_since(job.begin)};
    const bool several = job.runs.size() > 1;
    // Of several runs some have ended well where others have failed.
    if (how == EndedJob::How::kDone || (several && is_trained(run))) {
      try {
        const RunState state = read_run_state(run);
        if (state.stage == RunStage::kFinished) ended.end = RunEnd::kFinished;
        if (state.stage == RunStage::kUnfinished && state.trained && job.trains) ended.end = RunEnd::kTrained;
        if (state.running) ended.end = RunEnd::kBusy;  // another program has taken it up meanwhile
      } catch (const UserError& error) {
        ended.failure = {FailureKind::kRefused, error.what()};
      }
    } else if (outcome_.stopped && how == EndedJob::How::kStopped) {
      ended.end = RunEnd::kStopped;
    } else if (how == EndedJob::How::kRefused && several) {
      ended.end = RunEnd::kApart;
      apart_.insert(&run);
    } else if (how == EndedJob::How::kRefused &&
               (failure.reason.find("is in use by") != std::string::npos || in_use(run.folder))) {
      ended.end = RunEnd::kBusy;
    } else if (failure.kind == FailureKind::kNoRoom && !job.alone) {
      ended.end = RunEnd::kPutOff;
      ended.failure = failure;
      jobs_at_once_ = std::max<std::size_t>(1, jobs_.size());
    } else if (failure.kind == FailureKind::kOutOfMemory && !job.alone) {
      ended.end = RunEnd::kCrowded;
      ended.failure = failure;
    }
    if (ended.end != RunEnd::kFailed) return ended;
    if (ended.failure.reason.empty()) ended.failure = failure;
    if (ended.failure.reason.empty())
      ended.failure.reason =
          job.trains ? "ended without its final evaluation" : "ended without the evaluations of its range";
    write_failure(failure_file(run), ended.failure);
    if (run.try_number == 0 && job.trains && ended.failure.kind == FailureKind::kDiverged)
      ended.end = RunEnd::kDiverged;
    return ended;
  }

  RunSource& source_;
  const EarlierRuns& earlier_;
  const Machine& machine_;
  JobLauncher& launcher_;
  RunWatch& watch_;
  std::deque<const PlannedRun*> waiting_, elsewhere_;  // elsewhere: another program trains there
  std::deque<const PlannedRun*> crowded_;
  const PlannedRun* by_itself_ = nullptr;  // the crowded one that is running; nothing begins beside it
  std::vector<RunJob> jobs_;
  std::size_t jobs_at_once_;
  std::set<const PlannedRun*> apart_;
  RunsOutcome outcome_;
};

}  // namespace

RunsOutcome run_all(RunSource& source, const EarlierRuns& earlier, const Machine& machine, JobLauncher& launcher,
                    RunWatch& watch) {
  return Running(source, earlier, machine, launcher, watch).all();
}

}  // namespace engram
