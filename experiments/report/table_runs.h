// Results from a report's table of runs alone: its CSV outlives the folders of the runs.
#pragma once

#include <filesystem>

#include "experiments/results/results.h"

namespace engram {

// Whether the file begins as a report's table of runs does; a table of scores does not. False of what is no file.
bool is_runs_table(const std::filesystem::path& file);

// Tasks, backbones and seeds in the order of the table; runs that it has no row of are missing. What a task is, it says
// by its label alone: one that is the name of a task or of a preset is that, and one that only begins with the name of
// a task is of its family, with the chance of its defaults. Settings are not known (Results::settings_known). Throws
// UserError as EarlierRuns::parse() does, and for a table without a finished run.
Results read_runs_table(const std::filesystem::path& file);

}  // namespace engram
