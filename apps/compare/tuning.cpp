#include "apps/compare/tuning.h"

#include <unistd.h>

#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

#include "apps/cli/terminal.h"
#include "apps/compare/process_launcher.h"
#include "apps/compare/progress.h"
#include "base/text/words.h"

namespace engram {

namespace fs = std::filesystem;

std::string tuning_text(const std::vector<TunedPlace>& places, const TuneOptions& options) {
  std::size_t tries = 0;
  for (const TunedPlace& place : places) tries += place.tries.size();
  return "Tuning: " + counted(places.size(), "place") + ", " + counted(tries, "try", "tries") + " on " +
         counted(options.seeds.size(), "seed") + ".";
}

std::string chosen_text(const fs::path& tuning, const std::string& place) {
  const Settings chosen = read_tune_record(record_file(tuning, place)).chosen.value();
  return "Chosen for " + place + ": " + (chosen.empty() ? "nothing to choose" : settings_text(chosen));
}

std::string why_not_tuned(const fs::path& tuning, const TuneOutcome& outcome, const std::vector<TunedPlace>& places) {
  if (!outcome.failed.empty()) {
    const EndedRun& first = outcome.failed.front();
    return counted(outcome.failed.size(), "run") + " of the tuning failed: " + first.run->name() + " (" +
           failure_text(first.failure) + ")" +
           (outcome.failed.size() > 1 ? " and others, see " + (tuning / "failures").string() : "") +
           "; the same command tries again";
  }
  if (!outcome.diverged.empty())
    return outcome.diverged.front() + (outcome.diverged.size() > 1
                                           ? "; likewise " + std::to_string(outcome.diverged.size() - 1) + " other" +
                                                 (outcome.diverged.size() > 2 ? "s" : "")
                                           : "");
  for (const TunedPlace& place : places)
    if (!read_tune_record(record_file(tuning, place.place)).chosen)
      return "the tuning of " + place.place + " has not come to its end; the same command goes on";
  return "";
}

TuningEnd run_tuning(const fs::path& tuning, const TuneOptions& options, std::vector<TunedPlace>& places,
                     const Machine& machine, TakenSignals& signals) {
  write_try_configs(places);
  std::cout << tuning_text(places, options) << std::endl;
  Tuning tries(tuning, options, places);
  ProcessLauncher launcher(machine, signals);
  const RunsOutcome ran = [&] {
    CompareProgress progress(std::cout, terminal_width(STDOUT_FILENO), {}, machine.runs_at_once());
    return run_all(tries, {}, machine, launcher, progress);
  }();  // its live line is gone
  if (ran.stopped) return {launcher.stopped_by(), ""};
  for (const TunedPlace& place : places)
    if (read_tune_record(record_file(tuning, place.place)).chosen)
      std::cout << chosen_text(tuning, place.place) << std::endl;
  return {0, why_not_tuned(tuning, tries.outcome(ran.failed), places)};
}

}  // namespace engram
