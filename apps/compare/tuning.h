// Tuning as processes of their own (experiments/run/tune.h), shown on the terminal: of a comparison and of a sweep.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/cli/taken_signals.h"
#include "experiments/plan/plan.h"
#include "experiments/run/run_all.h"
#include "experiments/run/tune.h"

namespace engram {

// "Tuning: 3 places, 9 tries on 2 seeds."
std::string tuning_text(const std::vector<TunedPlace>& places, const TuneOptions& options);
// "Chosen for t/gru: learner.learning_rate = 1e-3", of a place whose record in the tuning's folder says so.
std::string chosen_text(const std::filesystem::path& tuning, const std::string& place);
// Why some of the places have not chosen; empty: all have.
std::string why_not_tuned(const std::filesystem::path& tuning, const TuneOutcome& outcome,
                          const std::vector<TunedPlace>& places);

struct TuningEnd {
  int signal = 0;       // that stopped it; 0: none
  std::string failure;  // why_not_tuned()
};

// Tunes these places in the folder of the tuning, and nothing else, and writes what it needs there. Throws what
// Tuning and run_all() throw.
TuningEnd run_tuning(const std::filesystem::path& tuning, const TuneOptions& options, std::vector<TunedPlace>& places,
                     const Machine& machine, TakenSignals& signals);

}  // namespace engram
