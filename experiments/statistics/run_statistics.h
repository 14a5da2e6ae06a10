// The statistics of scores as tables and plots of a page.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/document.h"
#include "experiments/report/plots.h"
#include "experiments/statistics/aggregate.h"

namespace engram {

// Runs behind a figure from which on a bootstrap interval is shown: of fewer it is not to be trusted.
inline constexpr int kTrustedRuns = 5;
// The scores of `table` without the intervals of figures that rest on fewer than kTrustedRuns runs of some task.
AggregateScores with_trusted_intervals(AggregateScores scores, const ScoreTable& table);

// What can be told apart among curves; of more methods the best are drawn, and all of them as a matrix.
inline constexpr std::size_t kMostCurves = 10;
// Whether each of `methods`, which are those of `scores`, has curves: all, or of more than kMostCurves the controls,
// `reference` and those with the highest means over the tasks that they have scores of.
std::vector<bool> methods_to_draw(const AggregateScores& scores, const std::vector<PlottedMethod>& methods,
                                  const std::string& reference = "");
// " Of the 31 backbones 10: ...", behind a caption, or nothing where all are drawn.
std::string which_are_drawn(const std::vector<bool>& drawn);

// The mean score of every method in every task, coloured from the task's chance on: the best methods first, behind them
// those that lack some tasks, and at last the controls. `chance`: below 1; empty: 0 in all tasks.
Figure matrix_plot(const AggregateScores& scores, const std::string& metric, const std::vector<std::string>& tasks,
                   const std::vector<double>& chance, const std::vector<PlottedMethod>& methods,
                   const PlotFolder& folder);

// `metric`: what the scores are, as in "final success"; `about`: how they are measured.
TextTable over_tasks_table(const AggregateScores& scores, const std::string& metric, const std::string& about = "");
Figure over_tasks_plot(const AggregateScores& scores, const std::string& metric,
                       const std::vector<PlottedMethod>& methods, const PlotFolder& folder);
Figure profiles_plot(const AggregateScores& scores, const std::string& metric,
                     const std::vector<PlottedMethod>& methods, const std::vector<bool>& drawn,
                     const PlotFolder& folder);
TextTable pairs_table(const AggregateScores& scores, const std::string& metric);

// As percent(), the interval in a line of its own: for tables with a column for each task.
std::string percent_in_lines(const Estimate& estimate);
// "\nruns 50.0, 70.0", a further line of a table's cell: what each of the runs behind a mean has, where they are fewer
// than kTrustedRuns and more than one; else nothing.
std::string runs_line(const std::vector<std::string>& figures);
// "\nsampled 66.0", a further line of a table's cell, where that is more than 5 points from what the greedy actions
// reach; else nothing.
std::string sampled_line(const Estimate& greedy, const std::optional<Estimate>& sampled);
// How the intervals are made and what they mean, as sentences.
std::string about_intervals(const BootstrapOptions& bootstrap);

}  // namespace engram
