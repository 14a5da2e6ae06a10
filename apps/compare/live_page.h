// LivePage: the page of a comparison that is under way, written anew, whole, whenever a run has ended and every minute.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <vector>

#include "experiments/report/report.h"
#include "experiments/results/earlier_runs.h"

namespace engram {

class LivePage {
 public:
  // Of all runs of the experiment in `directory`: report/report.html there. `earlier` outlives the object. What writes
  // it throws UserError if it cannot be written.
  LivePage(const std::filesystem::path& directory, const Experiment& experiment, const std::vector<PlannedRun>& runs,
           const EarlierRuns& earlier);

  // Some of the runs are others now: places have chosen their settings.
  void plan(const std::vector<PlannedRun>& runs);
  // A run has ended: the next page is due, but for a moment in which others may end.
  void run_ended() { due_ = true; }
  // Writes the page if it is due; `state` is asked for only then. A page takes at most a twentieth of the time: one
  // that took long is followed by the next the later.
  void update(const std::function<UnderWay()>& state);
  // The last page, which waits for no other.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void read_runs();
  // `state`: null of the last page.
  void write(const UnderWay* state);

  Results results_;
  const EarlierRuns& earlier_;
  const std::filesystem::path file_;
  bool due_ = true;
  Clock::time_point last_{};
  Clock::duration taken_{};
};

}  // namespace engram
