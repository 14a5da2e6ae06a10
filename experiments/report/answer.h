// What a comparison says, in words: who learns what, and which tasks say anything about memories.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/report/document.h"
#include "experiments/report/report.h"

namespace engram {

// Of a backbone in a task: whether the lower end of its interval, or the mean of fewer than kTrustedRuns runs, lies
// more than half of the way from chance to 1. False without a finished run.
bool learns(const Results& results, const Analysis& analysis, std::size_t task, std::size_t backbone);

// The answer as sentences, a paragraph each, the most important first. Empty where no run is finished.
std::vector<std::string> answer_of(const Results& results, const Analysis& analysis);

// A row for each task: whether it tells memories apart, who is best, how many learn it, the controls.
TextTable task_table(const Results& results, const Analysis& analysis);

}  // namespace engram
