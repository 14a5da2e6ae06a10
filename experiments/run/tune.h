// Tuning: successive halving of the tries of an experiment (tune_options.h), rung by rung, as a source of runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/plan/plan.h"
#include "experiments/plan/tune_options.h"
#include "experiments/plan/tune_record.h"
#include "experiments/run/run_all.h"

namespace engram {

// Environment steps of a run of `steps` up to a rung; at least one.
std::int64_t steps_to_rung(const TuneOptions& tune, std::size_t rung, std::int64_t steps);

// Numbers of the tries that take part in the next rung, of a place that has not chosen.
std::vector<int> next_tries(const TuneRecord& record, std::size_t tries);

// What a run is to be asked for that shall come to `steps`. One that ends with whole iterations may be past them since
// the rung before: it stays as it is, and is finished.
std::int64_t steps_to_ask_for(const PlannedRun& run, std::int64_t steps);

// How many tries of `tries` take part in each rung; the rungs that one alone is left for are not needed.
std::vector<std::size_t> tries_in_rungs(const TuneOptions& tune, std::size_t tries);

// Environment steps that a place's tuning takes, all seeds, as far as no run ends early.
std::int64_t steps_of_tuning(const TuneOptions& tune, const TunedPlace& place);

struct TuneOutcome {
  std::vector<EndedRun> failed;       // for another reason than divergence, which says nothing of the settings
  std::vector<std::string> diverged;  // a line for each place all of whose tries have: it cannot choose
};

// The tries of places that have not chosen, each place at its own pace: when all runs of its rung are over it writes
// its record (tune_record.h), which a later call goes on from, and its next rung is to be done. A place with one try
// chooses that without a run. A try of which a run has diverged (a loss that is not finite) is out; a run that fails
// for another reason leaves its place's rung undone: a later call tries it again.
class Tuning final : public RunSource {
 public:
  // `places` outlive it. Throws what read_tune_record() and write_tune_record() throw, as its functions do.
  Tuning(std::filesystem::path folder, const TuneOptions& options, std::vector<TunedPlace>& places);

  // Of the rungs that have come up, seed by seed, so that places come along together.
  std::vector<const PlannedRun*> next() override;
  void over(const PlannedRun& run) override;

  // The places that have chosen since the last call.
  std::vector<std::string> take_chosen() { return std::exchange(chosen_, {}); }
  // Of all that was run, this the part that failed.
  TuneOutcome outcome(const std::vector<EndedRun>& failed) const;

 private:
  struct Place {
    TunedPlace* tries;
    std::int64_t whole;  // environment steps of a run to its end
    TuneRecord record;
    std::set<const PlannedRun*> rung;  // runs of the rung under way that are not over
  };
  void begin_rung(Place& place);
  void end_rung(Place& place);

  std::filesystem::path folder_;
  TuneOptions options_;
  std::vector<Place> places_;
  std::vector<const PlannedRun*> waiting_;
  std::vector<std::string> chosen_, diverged_;
};

}  // namespace engram
