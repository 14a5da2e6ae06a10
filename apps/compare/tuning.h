// Tuning as processes of their own (experiments/run/tune.h), shown on the terminal: of a comparison and of a sweep.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/cli/taken_signals.h"
#include "experiments/plan/plan.h"
#include "experiments/run/run_all.h"

namespace engram {

struct TuningEnd {
  int signal = 0;       // that stopped it; 0: none
  std::string failure;  // why some places have not chosen; empty: all have
};

// Tunes these places in the folder of the tuning and writes what it needs there. Throws what tune() throws.
TuningEnd run_tuning(const std::filesystem::path& tuning, const TuneOptions& tune, std::vector<TunedPlace>& places,
                     const Machine& machine, TakenSignals& signals);

}  // namespace engram
