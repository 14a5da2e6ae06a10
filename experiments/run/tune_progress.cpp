#include "experiments/run/tune_progress.h"

#include <algorithm>
#include <utility>

#include "agents/study/metrics_summary.h"
#include "experiments/plan/experiment.h"
#include "experiments/plan/tune_record.h"
#include "experiments/run/tune.h"
#include "storage/run/run_directory.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

std::int64_t steps_done(const PlannedRun& run) {
  return RunDirectory::is_run(run.folder) ? summarize_metrics(RunDirectory::open(run.folder).metrics_file()).steps
                                          : std::int64_t{0};
}

PlaceProgress progress_of(const fs::path& tuning, const TuneOptions& options, TunedPlace& place) {
  PlaceProgress progress{.place = place.place, .chosen = {}};
  const TuneRecord record = read_tune_record(record_file(tuning, place.place));
  progress.chosen = record.chosen;
  progress.rungs = tries_in_rungs(options, place.tries.size()).size();
  if (record.chosen || progress.rungs == 0) return progress;
  const std::vector<int> numbers = next_tries(record, place.tries.size());
  progress.rung = record.rungs.size() + 1;
  progress.tries = numbers.size();
  const std::int64_t whole = place.runs.front().config.run.steps;
  std::int64_t here = steps_to_rung(options, record.rungs.size(), whole);
  for (PlannedRun& run : place.runs) {
    if (std::ranges::find(numbers, run.try_number) == numbers.end()) continue;
    ++progress.runs;
    run.config.run.steps = steps_to_ask_for(run, here);
    const RunState state = read_run_state(run);
    if (state.stage == RunStage::kFinished) {
      ++progress.finished;
      continue;
    }
    if (state.stage == RunStage::kFailed) {
      const bool diverged = state.failure.kind == FailureKind::kDiverged;
      ++(diverged ? progress.diverged : progress.failed);
      if (diverged) continue;  // it is out
    }
    if (state.running) ++progress.running;
    progress.steps_ahead += std::max<std::int64_t>(0, here - steps_done(run));
  }
  // As many go on as the options keep; a rung with one is needed no more.
  std::size_t left = options.kept_of(numbers.size());
  for (std::size_t rung = progress.rung; rung < options.rungs.size() && left > 1; ++rung) {
    const std::int64_t next = steps_to_rung(options, rung, whole);
    progress.steps_ahead += static_cast<std::int64_t>(left * options.seeds.size()) * (next - here);
    here = next;
    left = options.kept_of(left);
  }
  return progress;
}

}  // namespace

std::vector<PlaceProgress> tune_progress(const fs::path& tuning, const TuneOptions& options,
                                         std::vector<TunedPlace> places) {
  std::vector<PlaceProgress> all;
  for (TunedPlace& place : places) all.push_back(progress_of(tuning, options, place));
  return all;
}

}  // namespace engram
