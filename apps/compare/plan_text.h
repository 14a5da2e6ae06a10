// The plan of a comparison, for people: what --dry-run prints.
#pragma once

#include <vector>

#include "experiments/plan/plan.h"
#include "experiments/run/run_all.h"

namespace engram {

// `runs`: those of the call, in the plan's order.
void print_tasks(const Experiment& experiment, const std::vector<const PlannedRun*>& runs);
void print_budgets(const Experiment& experiment, const std::vector<const PlannedRun*>& runs);

// What tuning tries and what it costs, and what is chosen already. `places`: those of the call, from `runs`, which are
// none in a sweep.
void print_tuning(const TuneOptions& tune, const std::vector<TunedPlace>& places,
                  const std::vector<const PlannedRun*>& runs);

// How long the runs take, by training one of each place for a moment, kTimingSeconds for all of them together: of those
// that this is not enough for it says that they are not timed. `places`: those that are still to be tuned.
inline constexpr double kTimingSeconds = 10;
void print_estimate(const std::vector<const PlannedRun*>& runs, const Machine& machine, const TuneOptions* tune,
                    const std::vector<TunedPlace>& places);

}  // namespace engram
