// Budgets: what a backbone costs, and sizes at which several cost the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/plan/experiment.h"

namespace engram {

// Largest relative difference of budgets that count as equal.
inline constexpr double kMatchTolerance = 0.03;

// The budget of the config's backbone in the config's task: the Transformer's cache is as long as the task's episodes.
Budget budget_of(const Config& config);

// What its first layer adds to a residual stream before anything is learnt (memory/core/first_scale.h); nothing where
// there is no such stream. Of equal options it is measured once.
std::optional<double> first_scale_of(const BackboneConfig& memory);

// The figure that a match looks at.
std::int64_t matched_figure(const Budget& budget, Match match);
// "parameters", "state bytes", "flops per step".
const char* figure_name(Match match);

// The MLPs' part of it: 0 of the state.
std::int64_t matched_mlp_figure(const Budget& budget, Match match);

// Gives the backbone of `config` the legal width at which its figure is nearest to `target` and returns its budget.
// Throws UserError, which begins with `where`, if the nearest differs by more than kMatchTolerance.
Budget match_width(Config& config, Match match, std::int64_t target, const std::string& where);

// The same with the width of its MLPs (memory.mlp_width), so that the memory's part of the figure agrees with that of
// the reference, whose budget is `goal`, and the MLPs' part with that of its MLPs. Of all pairs within kMatchTolerance
// those with the nearest share of the MLPs; a pair that GPUs have kernels for, a width that is a multiple of 4 and an
// MLP's that is one of 64, comes first if its share differs by no more than kMatchTolerance.
// Where the reference has no MLP, or nothing else, the MLPs' share is that of the published proportion to the width
// (8/3, the Transformer's 4). By width alone: a backbone without the option, one whose settings give memory.mlp_width,
// and where states are matched. A backbone that costs what the reference costs stays as it is.
Budget match_sizes(Config& config, Match match, const Budget& goal, const std::string& where);

}  // namespace engram
