// The report of a comparison, made from whatever of it is finished.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/results/results.h"
#include "experiments/statistics/aggregate.h"
#include "experiments/statistics/separation.h"

namespace engram {

// Where the parts of a report go: the page itself, the same as Markdown, the runs as CSV, every figure as JSON, tables
// for a paper, and the plots with gnuplot's scripts and data.
struct ReportFiles {
  std::filesystem::path html, markdown, csv, json, latex, folder;

  // Beside FILE.html: FILE.md, FILE.csv, FILE.json, FILE.tex and FILE_figures/. Throws UserError for another ending.
  static ReportFiles beside(const std::filesystem::path& html);
};

bool has_best_weights(const RunResult& run);  // of a run that has a folder

// One finished run of each backbone, all of the task in which the backbones differ most: of a backbone's runs the one
// in the middle, by final success, or the nearest to it whose best weights are there.
std::vector<const RunResult*> runs_to_film(const Results& results);

// What of a report is made only where it is asked for.
enum class Plots { kNone, kSvg, kPdf };  // of the latter SVG and PNG, too
struct ReportExtras {
  Plots plots = Plots::kNone;
  bool latex = false;
};

struct FilmStrip {
  std::string png;   // empty: none
  std::string note;  // what it shows, or why there is none
};

// Writes all files; creates the folders. Returns why plots that were asked for are left out of it (plots.h); empty:
// none is. Throws UserError if they cannot be written.
std::string write_report(const Results& results, const ReportFiles& files, const FilmStrip& film,
                         const BootstrapOptions& bootstrap, const ReportExtras& extras = {});

// The same of a table of scores alone, such as a probe's: means, figures over tasks, profiles and pairs; its CSV is the
// table's own.
std::string write_score_report(const ScoreTable& table, const std::string& title, const ReportFiles& files,
                               const BootstrapOptions& bootstrap, const ReportExtras& extras = {});

// How the runs of a comparison that is under way come along.
struct UnderWay {
  std::string headline;   // such as "12 of 60 runs finished, 3 running, about 2h10m left."
  std::string time;       // of this state
  double done = 0;        // a fraction of all steps
  int next_seconds = 60;  // until there will be another page
};

// The page of such a comparison, to be written to `html`; its results may have no run that counts, then without tasks.
// `state`: null where nothing is under way any more.
std::string page_under_way(const Results& results, const UnderWay* state, const std::filesystem::path& html,
                           const BootstrapOptions& bootstrap);

// The page of the runs of `results`, a single one, to be written to `html`: `said` is what it begins with.
std::string run_page(const Results& results, const std::vector<std::string>& said, const FilmStrip& film,
                     const std::filesystem::path& html, const BootstrapOptions& bootstrap);

// Whether two learners order the memories alike (statistics/rank_agreement.h).
struct LearnerOrder {
  std::string x, y;                   // labels of the learners
  std::vector<std::string> tasks;     // over which a memory's score is a mean
  std::vector<std::string> memories;  // with runs that count by both in each of them; without controls
  int fewest_runs = 0;                // of a memory in a task, by either
  std::optional<Estimate> tau;        // nothing of fewer than two memories, and where a learner tells none apart
};
// Of each pair of learners that both have runs that count of a memory in some task: over all such tasks, then in each.
std::vector<LearnerOrder> orders_by_learner(const Results& results, const BootstrapOptions& bootstrap);

// What a report says, in numbers.
struct Analysis {
  std::vector<Separation> separations;  // by task: of final success
  // One of each of kScoreKinds; empty where no run has such a score. Their figures over tasks are over those that tell
  // memories apart, or of which it is not known.
  std::vector<AggregateScores> scores;
  std::vector<std::vector<std::vector<std::pair<double, Estimate>>>>
      curves;  // by task, backbone; empty: no finished run
  // Mean over the runs that have both; nothing without such a run.
  struct Returns {
    Estimate final, best;               // RunScores' mean_return and best_return
    std::optional<Estimate> mmer = {};  // over those of them that have one
  };
  std::vector<std::vector<std::optional<Returns>>> returns;  // by task, backbone
  // Success at the values of the experiment's range.
  struct RangeCurve {
    int runs = 0;                           // with an evaluation at each of them
    std::vector<Estimate> greedy, sampled;  // by value; empty without such a run
  };
  std::vector<std::vector<RangeCurve>> ranges;  // by task, backbone; empty without a range
  std::vector<LearnerOrder> orders = {};        // empty without learners
  // By backbone, of the first task: first_scale_of(); nothing where settings are not known.
  std::vector<std::optional<double>> first_scales = {};
};
Analysis analyse(const Results& results, const BootstrapOptions& bootstrap);

// The files that programs read.
std::string report_json(const Results& results, const Analysis& analysis, const BootstrapOptions& bootstrap);
std::string report_csv(const Results& results);  // a row a run
std::string scores_json(const ScoreTable& table, const AggregateScores& scores);

}  // namespace engram
