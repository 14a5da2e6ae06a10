// Budgets: what a backbone costs, and widths at which several cost the same.
#pragma once

#include <string>

#include "experiments/experiment.h"

namespace engram {

// Largest relative difference of budgets that count as equal.
inline constexpr double kMatchTolerance = 0.03;

// Of the config's backbone in the config's task: the Transformer's cache is as long as the task's episodes.
Budget budget_of(const Config& config);

// The figure that a match looks at.
std::int64_t matched_figure(const Budget& budget, Match match);
// "parameters", "state bytes", "flops per step".
const char* figure_name(Match match);

// Gives the backbone of `config` the legal width at which its figure is nearest to `target` and returns its budget.
// Throws UserError, which begins with `where`, if the nearest differs by more than kMatchTolerance.
Budget match_width(Config& config, Match match, std::int64_t target, const std::string& where);

}  // namespace engram
