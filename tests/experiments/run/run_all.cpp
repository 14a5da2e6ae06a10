#include "experiments/run/run_all.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "tests/experiments/handmade_comparison.h"

using namespace engram;

namespace {

using Names = std::vector<std::string>;
using Failures = std::vector<RunFailure>;

const RunFailure kNoRoom{FailureKind::kNoRoom, "the GPU lets no further program in"};
const RunFailure kNoMemory{FailureKind::kOutOfMemory, "no memory"};
const RunFailure kBroken{FailureKind::kError, "broken"};

std::vector<const PlannedRun*> all_of(const Comparison& comparison) {
  std::vector<const PlannedRun*> all;
  for (const PlannedRun& run : comparison.plan) all.push_back(&run);
  return all;
}

Names names_of(const Comparison& comparison) {
  Names names;
  for (const PlannedRun& run : comparison.plan) names.push_back(run.name());
  return names;
}

// Programs that take no time: one job ends at each look, the one that has begun first, and its runs are finished, but
// for what the test says of some.
class FakeLauncher final : public JobLauncher {
 public:
  FakeLauncher(Comparison& comparison, int jobs) : comparison_(comparison), jobs_(jobs) {}

  void start(const RunJob& job) override {
    CHECK(job.slot < jobs_);
    for (const RunJob& other : running_) CHECK(other.slot != job.slot);
    if (running_.size() >= room) turned_away_.insert(job.slot);
    running_.push_back(job);
    most_at_once = std::max(most_at_once, running_.size());
    Names names;
    for (const PlannedRun* run : job.runs) names.push_back(run->name());
    started.push_back(names);
  }
  bool wait() override { return ended_ >= stops_after; }
  std::vector<EndedJob> take_ended() override {
    if (running_.empty()) return {};
    // Those that are turned away end before the others.
    const auto away =
        std::ranges::find_if(running_, [&](const RunJob& own) { return turned_away_.contains(own.slot); });
    const auto first = away == running_.end() ? running_.begin() : away;
    const RunJob job = *first;
    const bool has_room = turned_away_.erase(job.slot) == 0;
    running_.erase(first);
    const bool beside_others = !running_.empty();
    if (ended_++ >= stops_after) return {{job.slot, EndedJob::How::kStopped, Failures(job.runs.size())}};
    EndedJob::How how = EndedJob::How::kDone;
    Failures failures;
    const auto lacks_memory = [&](const std::string& run) {
      return huge.contains(run) || (large.contains(run) && beside_others);
    };
    const auto fails = [&](const std::string& run) { return failing.contains(run) || lacks_memory(run); };
    for (const PlannedRun* run : job.runs) {
      const bool diverges = diverging.contains(run->name());
      failures.push_back(!has_room                   ? kNoRoom
                         : lacks_memory(run->name()) ? kNoMemory
                         : fails(run->name())        ? kBroken
                         : diverges                  ? kDivergence
                                                     : RunFailure{});
      if (!has_room || fails(run->name()) || diverges) how = EndedJob::How::kFailed;
      if (job.runs.size() > 1 && refused.contains(run->name())) how = EndedJob::How::kRefused;
    }
    for (const PlannedRun* run : job.runs)
      if (has_room && how != EndedJob::How::kRefused && !fails(run->name()) && !diverging.contains(run->name()))
        comparison_.write(run->name(), final_row(1));
    return {{job.slot, how, failures}};
  }

  std::set<std::string> failing, diverging, refused;  // refused: beside others
  std::set<std::string> large, huge;                  // memory runs out: beside others, always
  std::size_t stops_after = 1000;                     // jobs that have ended
  std::size_t room = 1000;                            // jobs that the GPU lets in at once
  std::vector<Names> started;                         // job by job
  std::size_t most_at_once = 0;

 private:
  Comparison& comparison_;
  int jobs_;
  std::deque<RunJob> running_;
  std::set<int> turned_away_;  // slots
  std::size_t ended_ = 0;
};

struct SeenRuns final : RunWatch {
  void added(const std::vector<const PlannedRun*>& runs) override { known += runs.size(); }
  void count_ended(const PlannedRun& run, const RunState& state) override {
    (state.diverged() ? diverged_before : finished_before).push_back(run.name());
  }
  void started(const PlannedRun& run) override { begun.push_back(run.name()); }
  void ended(const EndedRun& ended) override { ends[static_cast<int>(ended.end)].push_back(ended.run->name()); }
  void waits_for(const std::deque<const PlannedRun*>& elsewhere) override { waited_for = elsewhere.size(); }
  void stopping(std::size_t runs) override { asked_to_end.push_back(runs); }
  void report(const std::vector<RunJob>& jobs) override { reported = std::max(reported, jobs.size()); }

  const Names& of(RunEnd end) const { return ends[static_cast<int>(end)]; }

  Names finished_before, diverged_before, begun, ends[9];
  std::size_t known = 0, waited_for = 0, reported = 0;
  std::vector<std::size_t> asked_to_end;
};

RunsOutcome run(const Comparison& comparison, const Machine& machine, FakeLauncher& launcher, SeenRuns& seen) {
  ListedRuns all(all_of(comparison));
  return run_all(all, {}, machine, launcher, seen);
}

Names joined(const std::vector<Names>& jobs) {
  Names names;
  for (const Names& job : jobs) names.insert(names.end(), job.begin(), job.end());
  return names;
}

}  // namespace

TEST_CASE("all runs are started once, in their order, and no more at once than there are jobs") {
  for (const int jobs : {1, 3, 100}) {
    Comparison comparison;
    FakeLauncher launcher(comparison, jobs);
    SeenRuns seen;
    const RunsOutcome outcome = run(comparison, {.jobs = jobs}, launcher, seen);
    CHECK_FALSE(outcome.stopped);
    CHECK(outcome.failed.empty());
    CHECK(comparison.plan.size() == 12);
    CHECK(joined(launcher.started) == names_of(comparison));
    CHECK(launcher.most_at_once == static_cast<std::size_t>(std::min(jobs, 12)));
    CHECK(seen.begun == names_of(comparison));
    CHECK(seen.of(RunEnd::kFinished) == names_of(comparison));
    CHECK(seen.reported < launcher.most_at_once + 1);
    // Nothing is left to do.
    FakeLauncher again(comparison, jobs);
    SeenRuns nothing;
    run(comparison, {.jobs = jobs}, again, nothing);
    CHECK(again.started.empty());
    CHECK(nothing.finished_before == names_of(comparison));
  }
}

TEST_CASE("what a run's end brings up is done, too, and nothing is asked for while something waits") {
  Comparison comparison;
  // The first two runs bring up one more each; of the last nothing is done.
  struct Growing final : RunSource {
    explicit Growing(const Comparison& given) : comparison(given) {}
    std::vector<const PlannedRun*> next() override {
      asked.push_back(over_so_far);
      if (given == 0) return given = 2, std::vector{&comparison.plan[0], &comparison.plan[1]};
      if (over_so_far > given - 2 && given < 4) return {&comparison.plan[given++]};
      return {};
    }
    void over(const PlannedRun&) override { ++over_so_far; }
    const Comparison& comparison;
    std::size_t given = 0, over_so_far = 0;
    std::vector<std::size_t> asked;  // at which number of runs that were over
  };
  Growing source(comparison);
  FakeLauncher launcher(comparison, 1);
  SeenRuns seen;
  run_all(source, {}, {.jobs = 1}, launcher, seen);
  CHECK(joined(launcher.started) == Names{comparison.plan[0].name(), comparison.plan[1].name(),
                                          comparison.plan[2].name(), comparison.plan[3].name()});
  CHECK(seen.known == 4);
  CHECK(source.over_so_far == 4);
  CHECK(source.asked == std::vector<std::size_t>{0, 2, 3, 4});
}

TEST_CASE("a run that fails is told with its reason, stops no other, and is tried again by the next call") {
  Comparison comparison;
  const PlannedRun& bad = comparison.run("long/lstm/1");
  FakeLauncher launcher(comparison, 2);
  launcher.failing = {bad.name()};
  SeenRuns seen;
  const RunsOutcome outcome = run(comparison, {.jobs = 2}, launcher, seen);
  REQUIRE(outcome.failed.size() == 1);
  CHECK(outcome.failed[0].run == &bad);
  CHECK(outcome.failed[0].failure == kBroken);
  CHECK(read_failure(failure_file(bad)) == outcome.failed[0].failure);
  CHECK(seen.of(RunEnd::kFailed) == Names{bad.name()});
  CHECK(seen.of(RunEnd::kFinished).size() == 11);

  FakeLauncher again(comparison, 2);
  SeenRuns seen_again;
  CHECK(run(comparison, {.jobs = 2}, again, seen_again).failed.empty());
  CHECK(joined(again.started) == Names{bad.name()});
  CHECK_FALSE(std::filesystem::exists(failure_file(bad)));
}

TEST_CASE("where the GPU lets no further program in, fewer run at once, and what it turned away is done later") {
  Comparison comparison;
  FakeLauncher launcher(comparison, 5);
  launcher.room = 2;
  SeenRuns seen;
  CHECK(run(comparison, {.jobs = 5}, launcher, seen).failed.empty());
  CHECK(seen.of(RunEnd::kFinished).size() == 12);
  CHECK(seen.of(RunEnd::kPutOff) ==
        Names{comparison.plan[2].name(), comparison.plan[3].name(), comparison.plan[4].name()});
  CHECK(launcher.started.size() == 12 + 3);
  for (const PlannedRun& run : comparison.plan) CHECK_FALSE(std::filesystem::exists(failure_file(run)));
}

TEST_CASE("a run that memory ran out for beside others is done by itself when they have ended") {
  Comparison comparison;
  const PlannedRun &first = comparison.plan[0], &other = comparison.plan[4];
  FakeLauncher launcher(comparison, 3);
  launcher.large = {first.name(), other.name()};
  launcher.huge = {comparison.plan[7].name()};
  SeenRuns seen;
  const RunsOutcome outcome = run(comparison, {.jobs = 3}, launcher, seen);
  CHECK(seen.of(RunEnd::kCrowded) == Names{first.name(), other.name(), comparison.plan[7].name()});
  REQUIRE(launcher.started.size() == 12 + 3);
  CHECK(launcher.started[12] == Names{first.name()});
  CHECK(launcher.started[13] == Names{other.name()});
  CHECK(launcher.most_at_once == 3);
  CHECK(seen.of(RunEnd::kFinished).size() == 11);
  REQUIRE(outcome.failed.size() == 1);
  CHECK(outcome.failed[0].run == &comparison.plan[7]);
  CHECK(outcome.failed[0].failure == kNoMemory);
}

TEST_CASE("a run that is turned away where nothing runs beside it has failed") {
  Comparison comparison;
  FakeLauncher launcher(comparison, 3);
  launcher.room = 0;
  SeenRuns seen;
  const RunsOutcome outcome = run(comparison, {.jobs = 3}, launcher, seen);
  CHECK(outcome.failed.size() == 12);
  CHECK(outcome.failed[0].failure == kNoRoom);
  CHECK(read_failure(failure_file(*outcome.failed[0].run)) == kNoRoom);
}

TEST_CASE("a run that diverges is a result: the next call does not try it again, but what has failed otherwise") {
  Comparison comparison;
  const PlannedRun &bad = comparison.run("long/lstm/1"), &wild = comparison.run("short/gru/2");
  for (const bool first : {true, false}) {
    CAPTURE(first);
    FakeLauncher launcher(comparison, 2);
    launcher.failing = {bad.name()};
    launcher.diverging = {wild.name()};
    SeenRuns seen;
    const RunsOutcome outcome = run(comparison, {.jobs = 2}, launcher, seen);
    REQUIRE(outcome.failed.size() == 1);
    CHECK(outcome.failed[0].run == &bad);
    CHECK(outcome.diverged == std::vector<const PlannedRun*>{&wild});
    CHECK(read_failure(failure_file(wild)) == kDivergence);
    CHECK(joined(launcher.started) == (first ? names_of(comparison) : Names{bad.name()}));
    CHECK(seen.of(RunEnd::kDiverged) == (first ? Names{wild.name()} : Names{}));
    CHECK(seen.diverged_before == (first ? Names{} : Names{wild.name()}));
    CHECK(seen.finished_before.size() == (first ? 0 : 10));
  }
  // Without its folder and its record it is tried again.
  std::filesystem::remove_all(wild.folder);
  std::filesystem::remove(failure_file(wild));
  FakeLauncher anew(comparison, 1);
  SeenRuns seen;
  CHECK(run(comparison, {.jobs = 1}, anew, seen).diverged.empty());
  CHECK(joined(anew.started) == Names{bad.name(), wild.name()});
}

TEST_CASE("a try that diverges has failed, and evaluations of what is trained that do have, too") {
  Comparison comparison;
  for (PlannedRun& planned : comparison.plan) planned.try_number = 1;
  FakeLauncher launcher(comparison, 1);
  launcher.diverging = {comparison.plan[0].name()};
  SeenRuns seen;
  const RunsOutcome outcome = run(comparison, {.jobs = 1}, launcher, seen);
  CHECK(outcome.diverged.empty());
  REQUIRE(outcome.failed.size() == 1);
  CHECK(outcome.failed[0].failure == kDivergence);
  RunState state{.stage = RunStage::kFailed, .trained = true, .failure = kDivergence};
  CHECK_FALSE(state.diverged());
  state.trained = false;
  CHECK(state.ended());
}

TEST_CASE("a program that ends well without having finished its run has failed") {
  class Idle final : public JobLauncher {
   public:
    void start(const RunJob& job) override { slots_.push_back(job.slot); }
    bool wait() override { return false; }
    std::vector<EndedJob> take_ended() override {
      std::vector<EndedJob> ended;
      for (const int slot : std::exchange(slots_, {})) ended.push_back({slot, EndedJob::How::kDone, {{}}});
      return ended;
    }

   private:
    std::vector<int> slots_;
  };
  Comparison comparison;
  Idle idle;
  SeenRuns seen;
  ListedRuns all(all_of(comparison));
  const RunsOutcome outcome = run_all(all, {}, {.jobs = 5}, idle, seen);
  CHECK(outcome.failed.size() == 12);
  CHECK(outcome.failed[0].failure == RunFailure{FailureKind::kError, "ended without its final evaluation"});
}

TEST_CASE("a run that another program trains is waited for, and counts as finished when that has finished it") {
  class Refusing final : public JobLauncher {
   public:
    explicit Refusing(Comparison& comparison) : comparison_(comparison) {}
    void start(const RunJob& job) override { running_.push_back(job); }
    bool wait() override {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return false;
    }
    std::vector<EndedJob> take_ended() override {
      std::vector<EndedJob> ended;
      for (const RunJob& job : std::exchange(running_, {})) {
        ended.push_back(
            {job.slot, EndedJob::How::kRefused, {{FailureKind::kRefused, "run directory 'x' is in use by process 1"}}});
        comparison_.write(job.runs[0]->name(), final_row(1));  // the other program
      }
      return ended;
    }

   private:
    Comparison& comparison_;
    std::vector<RunJob> running_;
  };
  Comparison comparison;
  Refusing refusing(comparison);
  SeenRuns seen;
  const std::vector<const PlannedRun*> one = {&comparison.plan[0]};
  ListedRuns listed(one);
  CHECK(run_all(listed, {}, {}, refusing, seen).failed.empty());
  CHECK(seen.of(RunEnd::kBusy) == Names{one[0]->name()});
  CHECK(seen.finished_before == Names{one[0]->name()});
  CHECK(seen.begun.size() == 1);
  CHECK_FALSE(std::filesystem::exists(failure_file(*one[0])));
}

TEST_CASE("a stopped comparison begins nothing more, and goes on without what is finished") {
  Comparison comparison;
  FakeLauncher launcher(comparison, 3);
  launcher.stops_after = 4;
  SeenRuns seen;
  const RunsOutcome outcome = run(comparison, {.jobs = 3}, launcher, seen);
  CHECK(outcome.stopped);
  CHECK(outcome.failed.empty());
  const Names finished = seen.of(RunEnd::kFinished);
  CHECK(finished.size() == 4);
  CHECK(launcher.started.size() == 7);
  CHECK(seen.of(RunEnd::kStopped).size() == 3);
  CHECK(seen.asked_to_end == std::vector<std::size_t>{3});

  FakeLauncher again(comparison, 3);
  SeenRuns seen_again;
  CHECK_FALSE(run(comparison, {.jobs = 3}, again, seen_again).stopped);
  Names left = names_of(comparison);
  std::erase_if(left, [&](const std::string& name) { return std::ranges::count(finished, name) > 0; });
  CHECK(joined(again.started) == left);
  CHECK(seen_again.finished_before == finished);
}

TEST_CASE("seeds of a task and a backbone share a job, and one by one where that is refused") {
  Comparison comparison;
  FakeLauncher launcher(comparison, 2);
  launcher.refused = {"short/gru/2"};
  launcher.failing = {"long/gru/2"};
  SeenRuns seen;
  const RunsOutcome outcome = run(comparison, {.jobs = 2, .seeds_per_job = 2}, launcher, seen);
  CHECK(launcher.started[0] == Names{"long/gru/1", "long/gru/2"});
  CHECK(launcher.most_at_once == 2);
  CHECK(seen.of(RunEnd::kApart) == Names{"short/gru/1", "short/gru/2"});
  for (const std::string name : {"short/gru/1", "short/gru/2"})
    CHECK(std::ranges::count(launcher.started, Names{name}) == 1);
  CHECK(launcher.started.size() == 6 + 2);
  // The other seed of its job is finished.
  REQUIRE(outcome.failed.size() == 1);
  CHECK(outcome.failed[0].run->name() == "long/gru/2");
  CHECK(seen.of(RunEnd::kFinished).size() == 11);
}
