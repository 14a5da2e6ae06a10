// tune(): successive halving of the tries of an experiment (tune_options.h), rung by rung, over whatever does the runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
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
  bool stopped = false;
  std::vector<EndedRun> failed;       // for another reason than divergence, which says nothing of the settings
  std::vector<std::string> diverged;  // a line for each place all of whose tries have: it cannot choose
};

// Does the runs of a rung, which outlive the call: as run_all() does. `rung` from 0.
using RungRunner = std::function<RunsOutcome(std::size_t rung, const std::vector<const PlannedRun*>& runs)>;

// Tunes the places that are not yet tuned, each rung for all of them, and writes their records (tune_record.h), which a
// later call goes on from. A place with one try chooses that without a run. A try of which a run has diverged (a loss
// that is not finite) is out; a run that fails for another reason leaves its place's rung undone, while other places go
// on: the same call tries again. Throws what `run_rung` and write_tune_record() throw.
TuneOutcome tune(const std::filesystem::path& tuning, const TuneOptions& options, std::vector<TunedPlace>& places,
                 const RungRunner& run_rung);

}  // namespace engram
