// Tuning as processes of their own (experiments/run/tune.h), shown on the terminal: of a comparison and of a sweep.
#pragma once

#include <filesystem>
#include <vector>

#include "apps/cli/taken_signals.h"
#include "experiments/plan/plan.h"
#include "experiments/run/run_all.h"

namespace engram {

// Tunes these places in the folder of the tuning and writes what it needs there. Returns the signal that stopped it, or
// 0: then all places have chosen. Throws std::runtime_error where runs have failed, and what tune() throws.
int run_tuning(const std::filesystem::path& tuning, const TuneOptions& tune, std::vector<TunedPlace>& places,
               const Machine& machine, TakenSignals& signals);

}  // namespace engram
