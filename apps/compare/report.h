// engram compare report: the report of a comparison, from whatever of it is finished.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/commands.h"
#include "experiments/report/report.h"

namespace engram {

// Takes what follows "compare report" on the command line.
int run_compare_report(const std::vector<std::string>& arguments);

void describe_compare_report(const CommandVisitor& visit);

// One episode of each run, played greedily with its best weights: the first of its evaluation streams that neither its
// training nor the evaluations during it have seen. Without a picture where the program is built without video.
FilmStrip film_runs(const std::vector<const RunResult*>& runs);

}  // namespace engram
