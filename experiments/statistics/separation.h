// Whether a task tells memories apart: its figures say something about memories only where the task can be done, where
// it cannot be done without memory, and where memories differ by more than their seeds do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/statistics/bootstrap.h"

namespace engram {

// Shrout and Fleiss's ICC(1,1): of the variance of single runs, the share that is between groups; below 0 where the
// groups' means lie closer to each other than chance would put them. Groups may differ in size. The interval is the 95%
// one of the F distribution, which takes runs within a group for normally distributed. Nothing for fewer than two
// groups, without a group of two runs, and where all runs are the same.
std::optional<Estimate> intraclass_correlation(const std::vector<std::vector<double>>& groups);

// The runs of a task by what their agents are for; fractions.
struct TaskRuns {
  std::vector<std::vector<double>> memories;   // of each memory that has any
  std::vector<std::vector<double>> shown_all;  // of the controls full_state and full_state_recurrent
  std::vector<double> memoryless;              // of `none`
  std::optional<double> chance;                // success of an agent that guesses what it should remember
};

// From where on a run is at the top: this share of the way from chance to 1.
inline constexpr double kAtTop = 0.9;

struct Separation {
  // Whether any run that is shown all, or of a memory, is at the top; nothing where none is and none is shown all.
  std::optional<bool> can_be_done;
  // Whether `none` stays below the top in the mean; nothing without a run of it.
  std::optional<bool> needs_memory;
  // Of the memories' runs, counted from chance: what is below it is counted as it.
  std::optional<Estimate> intraclass_correlation;
  // Whether memories differ: the interval above lies above 0, and false where all runs are the same. Nothing of fewer
  // than two memories, or without two runs of one.
  std::optional<bool> memories_differ;

  // False if one of the three is; true if all are; nothing where one is not known.
  std::optional<bool> tells_apart() const;
  // A sentence without its full stop: the first that is false, else what is not known, else what the three say. The
  // same words for the same finding: without figures.
  std::string reason() const;
};
Separation separation_of(const TaskRuns& runs);

}  // namespace engram
