// The statistics of scores as tables and plots of a page.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/aggregate.h"
#include "experiments/document.h"
#include "experiments/plots.h"

namespace engram {

// `metric`: what the scores are, as in "final success". Errors of the plots are those of plots.h.
TextTable over_tasks_table(const AggregateScores& scores, const std::string& metric);
Figure over_tasks_plot(const AggregateScores& scores, const std::string& metric,
                       const std::vector<PlottedMethod>& methods, const std::filesystem::path& folder);
Figure profiles_plot(const AggregateScores& scores, const std::string& metric,
                     const std::vector<PlottedMethod>& methods, const std::filesystem::path& folder);
TextTable pairs_table(const AggregateScores& scores, const std::string& metric);

// As percent(), the interval in a line of its own: for tables with a column for each task.
std::string percent_in_lines(const Estimate& estimate);
// "\nsampled 66.0", a further line of a table's cell, where that is more than 5 points from what the greedy actions
// reach; else nothing.
std::string sampled_line(const Estimate& greedy, const std::optional<Estimate>& sampled);
// How the intervals are made and what they mean, as sentences.
std::string about_intervals(const BootstrapOptions& bootstrap);

}  // namespace engram
