// Results: what the runs of a comparison have measured so far, read from its folder and trusted in nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/study/metrics_summary.h"
#include "experiments/plan/experiment.h"
#include "experiments/plan/plan.h"
#include "experiments/plan/random_play.h"
#include "experiments/plan/tune_record.h"
#include "experiments/statistics/score_table.h"

namespace engram {

// What produced a run, from its about.json; empty where that does not say.
struct Provenance {
  std::string engram, commit, build_type, compiler, libtorch, device, cpu_cores;
  std::string roads;  // what computed each part of the agent on a GPU, "backbone: fused kernels in bfloat16; ..."

  auto operator<=>(const Provenance&) const = default;
};

// The scores of a run, fractions of episodes, of success where nothing else is said, and its returns. Of a run that is
// trained to its end alone. Nothing is what an earlier report's table does not say (earlier_runs.h).
struct RunScores {
  double final_success = 0;               // of the best weights, on episodes that did not choose them
  std::optional<double> sampled_success;  // of the same weights with sampled actions; none in runs of older versions
  std::optional<double> last_evaluation, best_evaluation;
  std::optional<double> area;  // under the curve of evaluations, over the planned steps (area_under_curve())
  double mean_return = 0;      // undiscounted, of the final evaluation; may not be finite
  // Of the final evaluation's greedy episodes; none of tasks that do not say what their decision is.
  std::optional<DecisionRates> decisions = {};
  // The highest mean return of any evaluation during training. Finite; nothing where none is.
  std::optional<double> best_return = {};
  // That of an iteration's training episodes (MetricsSummary); of learners on policy alone.
  std::optional<double> mmer = {};
};

bool has_returns(const RunScores& scores);  // both, and finite

constexpr double kLearntSuccess = 0.67;  // of greedy episodes; twice the chance among three

// One of the numbers that RunScores holds.
struct ScoreKind {
  const char* name;   // as in "final success"
  const char* key;    // as in "final_success"
  const char* about;  // how it is measured
  std::optional<double> (*of)(const RunScores&);
  // What a run that has diverged counts with: a success of 0, for no agent came of it; nothing of what is no success.
  std::optional<double> of_diverged = 0;
};
extern const std::vector<ScoreKind> kScoreKinds;  // what a report leads with first

struct RunResult {
  PlannedRun plan;
  RunState state;
  MetricsSummary metrics;
  TimingsSummary timings;
  Provenance provenance;
  std::vector<std::pair<double, double>> curve;  // (environment steps, success) of the evaluations; steps ascend
  // Finished in training when an evaluation first had a success of kLearntSuccess; nothing where none had.
  std::optional<std::int64_t> episodes_until_learnt;
  std::optional<RunScores> scores;  // of a run that is trained to its end
  // Of its best weights at the values of the experiment's range, as far as they are there; empty without a range.
  std::vector<std::optional<RangePoint>> range;
  std::string remark;  // what is wrong with a finished run, or unusual

  // Whether a report's figures are of it, too: it has scores, or has diverged, which is a result.
  bool counts() const { return scores || state.diverged(); }
  // What it counts with: what was measured; where it has diverged, what the kind says of such runs.
  std::optional<double> score(const ScoreKind& kind) const;

  // Of a run that there is nothing of.
  static RunResult missing(PlannedRun plan);
};

struct TaskFacts {
  std::string label;
  TaskInfo info;
  RandomPlay random;
};

// A numeric option that alone tells the tasks apart, and its value in each.
struct Sweep {
  std::string key;             // such as "task.distractor_steps"
  std::vector<double> values;  // one a task
};

// What tuning has done for one task, learner and backbone.
struct TuningResult {
  PlannedRun plan;  // of a run of the comparison
  TuneRecord record;
};

struct Results {
  std::filesystem::path folder;  // of the comparison; empty: the runs are of none (plain_runs.h)
  // What is reported on, a row a backbone: with learners a backbone of each pair, "gru by ppo" (by_learner()).
  Experiment experiment;
  std::vector<RunResult> runs;  // in the plan's order: task, backbone (of `experiment`), seed
  std::vector<TaskFacts> tasks;
  std::optional<Sweep> sweep;
  std::vector<std::string> notes;         // sentences on what else the runs differ in
  Experiment planned = {};                // as its file has it; of plain runs the same as `experiment`
  std::vector<TuningResult> tuning = {};  // in the plan's order; empty where nothing is tuned
  bool settings_known = true;             // false: configs and settings are none (report/table_runs.h)

  bool of_comparison() const { return !folder.empty(); }
  const RunResult& run(std::size_t task, std::size_t backbone, std::size_t seed) const {
    return runs[(task * experiment.backbones.size() + backbone) * experiment.seeds.size() + seed];
  }
  // Without places that have no run: of runs named one by one, and of a table, not every place has.
  std::size_t number_of_runs() const;
  std::size_t diverged_runs() const;
  // Of what each run counts with. Without any score where no finished run has one of this kind, as those of an older
  // table may not.
  ScoreTable table(const ScoreKind& kind) const;
};

// Of runs that have not ended in the folder, what its earlier.csv says (earlier_runs.h). Throws UserError for a folder
// that holds no comparison, or a run of another one, and for a comparison of which no run counts.
Results read_results(const std::filesystem::path& folder);

// "120 of 400 steps"
std::string progress_text(const PlannedRun& run, std::int64_t steps);

// For those who put Results together. A run's result from its files; `folder` is that of the comparison.
RunResult read_run(PlannedRun plan);
// Adds tasks and sweep to experiment and runs. Throws UserError if no run counts.
void add_facts(Results& results);

}  // namespace engram
