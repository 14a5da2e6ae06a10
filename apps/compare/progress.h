// CompareProgress: how far the runs of a comparison have come, and that on the terminal: a line for each run that ends,
// and below it one live line for the whole; without a terminal a plain line every half minute. And on a page.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <ostream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "apps/cli/terminal.h"
#include "apps/compare/live_page.h"
#include "experiments/run/run_all.h"

namespace engram {

class CompareProgress final : public RunWatch {
 public:
  // `runs`: those of this call that are known, which must outlive the object; `jobs`: how many run at once.
  // `width`: of the terminal that `out` writes to.
  // `page`, which outlives the object too, is kept up; null: there is none.
  CompareProgress(std::ostream& out, TerminalWidth width, const std::vector<const PlannedRun*>& runs, int jobs,
                  LivePage* page = nullptr);

  // A run that is known by its name takes the place of that.
  void added(const std::vector<const PlannedRun*>& runs) override;
  // Says nothing.
  void count_ended(const PlannedRun& run, const RunState& state) override;
  void started(const PlannedRun& run) override;
  void ended(const EndedRun& ended) override;
  void waits_for(const std::deque<const PlannedRun*>& elsewhere) override;
  void stopping(std::size_t runs) override;
  // Looks at the running jobs' metrics and writes the line, if it is time to.
  void report(const std::vector<RunJob>& jobs) override;
  // A line that stays, above the live line.
  void say(const std::string& text) { line_.say(text); }

 private:
  enum class Stage { kWaiting, kRunning, kFinished, kDiverged, kFailed };
  struct Progress {
    const PlannedRun* run;
    Stage stage = Stage::kWaiting;
    bool trained = false;                     // in this call: what is left are evaluations
    std::int64_t steps = 0, first_steps = 0;  // environment steps; first: when its job began
    double seconds = 0;                       // of its training
  };

  Progress& of(const PlannedRun& run) { return runs_[places_.at(run.name())]; }
  double seconds_left() const;
  double done() const;  // a fraction of all steps
  // "3 diverged" and "1 failed", where there are such.
  std::vector<std::string> mishaps() const;
  ProgressLine line() const;
  UnderWay state_for_page() const;
  void update_page();
  int count(Stage stage) const;

  LiveLine line_;
  int jobs_;  // at once
  bool said_put_off_ = false;
  LivePage* page_;
  std::vector<Progress> runs_;
  std::unordered_map<std::string, std::size_t> places_;  // in runs_, by the run's name
  std::chrono::steady_clock::time_point last_look_{}, last_line_{};
};

}  // namespace engram
