// Figures over tasks and runs with stratified bootstrap intervals, as rliable defines them (Agarwal, Schwarzer, Castro,
// Courville and Bellemare, "Deep reinforcement learning at the edge of the statistical precipice", NeurIPS 2021).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/statistics/bootstrap.h"
#include "experiments/statistics/score_table.h"

namespace engram {

// Scores by task, then run; the tasks may have different numbers of runs. Each function below throws
// std::invalid_argument if there is no task, or one without a run.
using TaskScores = std::vector<std::vector<double>>;

// Mean of all runs of all tasks without the lowest and the highest floor(n / 4) of the n.
double interquartile_mean(const TaskScores& scores);
// Mean and median of the tasks' means.
double mean_of_tasks(const TaskScores& scores);
double median_of_tasks(const TaskScores& scores);
// How far below `goal` the scores are, those above it counted as equal to it: goal - mean of min(score, goal), over the
// runs of a task and then over the tasks.
double optimality_gap(const TaskScores& scores, double goal = 1);
// Mean over tasks of P(a run of x > a run of y), equal scores counted half (Mann and Whitney's U / (n_x n_y)).
double probability_of_improvement(const TaskScores& x, const TaskScores& y);
// Run-score distribution: for each threshold the mean over tasks of the fraction of runs above it.
std::vector<double> performance_profile(const TaskScores& scores, std::span<const double> thresholds);

// Mean height from 0 to `end` of the piecewise linear curve through (steps, value), which is level before its first and
// after its last point. Steps ascend; at least one point; end > 0. Throws std::invalid_argument otherwise.
double area_under_curve(std::span<const std::pair<double, double>> points, double end);
// The height of the same curve at a place.
double height_at(std::span<const std::pair<double, double>> points, double place);

// One method over the tasks of AggregateScores.
struct MethodScores {
  std::string method;
  Estimate interquartile_mean, mean, median, optimality_gap;
  std::vector<Estimate> profile;  // at kProfileThresholds
};

// Method x against method y over the same tasks.
struct MethodComparison {
  std::string x, y;
  Estimate probability_of_improvement;  // of x over y; the runs of each resampled on their own
  // Mean over tasks of score(x) - score(y), over the seeds that both have; resampled by seed. None where there is no
  // such seed in a task.
  std::optional<Estimate> paired_difference;
  int pairs = 0;  // runs of x with one of y of the same task and seed
};

struct AggregateScores {
  std::vector<std::string> tasks;                           // those in which each of the methods has a score
  std::vector<MethodScores> methods;                        // those with any score
  std::vector<MethodComparison> comparisons;                // of all pairs, each once
  std::vector<std::vector<std::optional<Estimate>>> cells;  // the mean of each task and method of the table
  std::vector<std::string> left_out;  // a sentence for everything of the table that is not in the figures
};

inline constexpr int kProfileThresholds = 101;  // 0, 0.01, ... 1
double profile_threshold(int index);

// Scores are fractions: 1 is perfect. A resample draws, for each task and method, as many of its runs as there are,
// with replacement (rliable's StratifiedBootstrap). The tasks of `apart`, for each why or an empty text, have cells and
// are in no figure over tasks where there is a reason; none: all are. Throws UserError for a table without any score.
AggregateScores aggregate(const ScoreTable& table, const BootstrapOptions& options = {},
                          const std::vector<std::string>& apart = {});

}  // namespace engram
