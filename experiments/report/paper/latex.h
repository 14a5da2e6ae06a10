// The tables of a report for a paper.
#pragma once

#include <string>

#include "experiments/report/report.h"

namespace engram {

// A file for \input: booktabs tables of final success, by the tasks of tasks_of_tables(), and over tasks; a paragraph
// on the protocol; and behind \endinput BibTeX entries of where tasks and memories were published. `analysis`: with the
// intervals that are to be shown.
std::string report_latex(const Results& results, const Analysis& analysis);

// The text, with nothing in it that LaTeX would take for more.
std::string latex_escaped(const std::string& text);

}  // namespace engram
