#include "apps/compare/tuning.h"

#include <unistd.h>

#include <cstddef>
#include <iostream>
#include <set>
#include <string>

#include "apps/cli/terminal.h"
#include "apps/compare/process_launcher.h"
#include "apps/compare/progress.h"
#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/run/tune.h"

namespace engram {

TuningEnd run_tuning(const std::filesystem::path& tuning, const TuneOptions& options, std::vector<TunedPlace>& places,
                     const Machine& machine, TakenSignals& signals) {
  write_try_configs(tuning, places);
  int stopped_by = 0;
  const TuneOutcome outcome = tune(tuning, options, places, [&](std::size_t rung, const auto& runs) {
    std::set<std::string> tries;
    for (const PlannedRun* run : runs) tries.insert(run->place());
    std::cout << "Tuning, rung " << rung + 1 << " of " << options.rungs.size() << ": "
              << counted(tries.size(), "try", "tries") << " to " << formatted("%g%%", 100 * options.rungs[rung])
              << " of the steps, " << counted(runs.size(), "run") << std::endl;
    ProcessLauncher launcher(tuning, machine, signals);
    RunsOutcome ran = [&] {
      CompareProgress progress(std::cout, terminal_width(STDOUT_FILENO), runs, machine.runs_at_once());
      return run_all(tuning, runs, {}, machine, launcher, progress);
    }();  // its live line is gone
    stopped_by = launcher.stopped_by();
    return ran;
  });
  if (outcome.stopped) return {stopped_by, ""};
  TuningEnd end;
  if (!outcome.failed.empty()) {
    const EndedRun& first = outcome.failed.front();
    end.failure = counted(outcome.failed.size(), "run") + " of the tuning failed: " + first.run->name() + " (" +
                  failure_text(first.failure) + ")" +
                  (outcome.failed.size() > 1 ? " and others, see " + (tuning / "failures").string() : "") +
                  "; the same command tries again";
  } else if (!outcome.diverged.empty()) {
    end.failure = outcome.diverged.front() + (outcome.diverged.size() > 1
                                                  ? "; likewise " + std::to_string(outcome.diverged.size() - 1) +
                                                        " other" + (outcome.diverged.size() > 2 ? "s" : "")
                                                  : "");
  }
  for (const TunedPlace& place : places) {
    const TuneRecord record = read_tune_record(record_file(tuning, place.place));
    if (record.chosen)
      std::cout << "Chosen for " << place.place << ": "
                << (record.chosen->empty() ? "nothing to choose" : settings_text(*record.chosen)) << std::endl;
    else if (end.failure.empty())
      end.failure = "the tuning of " + place.place + " has not come to its end; the same command goes on";
  }
  return end;
}

}  // namespace engram
