// Whether two conditions (such as two learners) order the same methods alike.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "experiments/statistics/aggregate.h"

namespace engram {

// Kendall's tau-b of two lists of the same length: (pairs in the same order - pairs in the opposite order) over the
// geometric mean of the numbers of pairs that x and that y tell apart; 1: the same order, -1: the opposite one, ties
// counted in neither (Kendall, "The treatment of ties in ranking problems", Biometrika 33, 1945). Nothing where x or y
// tells no pair apart. Throws std::invalid_argument for lists of different lengths.
std::optional<double> kendall_tau(std::span<const double> x, std::span<const double> y);

// Kendall's tau-b of the methods' scores in x and in y; a method's score is the mean over tasks of the mean of its
// runs. x[i] and y[i] are the runs of method i, by task. The interval draws the runs of each method in each task and
// condition with replacement, as AggregateScores do; it is none where one of these has fewer than two runs. A resample
// that tells no pair apart counts as 0. Nothing where x or y itself tells no pair apart. Throws std::invalid_argument
// for different numbers of methods, and as mean_of_tasks() does.
std::optional<Estimate> rank_agreement(const std::vector<TaskScores>& x, const std::vector<TaskScores>& y,
                                       const BootstrapOptions& options = {});

}  // namespace engram
