// What the folder of a comparison holds and how far its runs are.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/screen_table.h"
#include "apps/look/inspect.h"
#include "base/error.h"
#include "base/words.h"
#include "experiments/plan/experiment.h"
#include "experiments/results/earlier_runs.h"
#include "experiments/results/results.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ComparisonFacts {
  Experiment experiment;
  std::size_t runs = 0, finished = 0, unfinished = 0, not_begun = 0;
  std::vector<std::pair<PlannedRun, std::int64_t>> running;  // and environment steps
  std::vector<std::pair<std::string, std::string>> failed;   // run and reason
};

ComparisonFacts read_facts(const fs::path& folder) {
  ComparisonFacts facts;
  facts.experiment = Experiment::read(folder);
  const std::vector<PlannedRun> runs = plan_runs(facts.experiment, folder);
  facts.runs = runs.size();
  const EarlierRuns earlier = EarlierRuns::of(folder);
  for (const PlannedRun& run : runs) {
    try {
      const RunState state = read_run_state(folder, run, earlier);
      if (state.stage == RunStage::kFailed)
        facts.failed.emplace_back(run.name(), one_line(state.reason));
      else if (state.running)
        facts.running.emplace_back(run, summarize_metrics(RunDirectory::open(run.folder).metrics_file()).steps);
      else
        ++(state.stage == RunStage::kFinished  ? facts.finished
           : state.stage == RunStage::kMissing ? facts.not_begun
                                               : facts.unfinished);
    } catch (const UserError& error) {  // a run of other settings in its place
      facts.failed.emplace_back(run.name(), error.what());
    }
  }
  return facts;
}

std::string labels_text(const std::vector<ExperimentEntry>& entries) {
  std::string text;
  for (const ExperimentEntry& entry : entries) text += (text.empty() ? "" : ", ") + entry.label;
  return text;
}

Json labels_json(const std::vector<ExperimentEntry>& entries) {
  Json labels = Json::array();
  for (const ExperimentEntry& entry : entries) labels.push_back(entry.label);
  return labels;
}

std::string run_command(const fs::path& folder) {
  return shell_command({"engram", "compare", "--run", folder.string()});
}

std::string report_command(const fs::path& folder) {
  return shell_command({"engram", "compare", "report", folder.string()});
}

}  // namespace

Json comparison_json(const fs::path& folder) {
  const ComparisonFacts facts = read_facts(folder);
  Json failures = Json::array();
  for (const auto& [run, reason] : facts.failed) failures.push_back({{"run", run}, {"reason", reason}});
  Json in_progress = Json::array();
  for (const auto& [run, steps] : facts.running)
    in_progress.push_back({{"run", run.name()}, {"environment_steps", steps}, {"total_steps", run.config.run.steps}});
  const bool has_learners = facts.experiment.has_learners();
  return {{"comparison", folder.string()},
          {"question", facts.experiment.question},
          {"tasks", labels_json(facts.experiment.tasks)},
          {"learners", has_learners ? labels_json(facts.experiment.learners) : Json::array()},
          {"backbones", labels_json(facts.experiment.backbones)},
          {"seeds", facts.experiment.seeds},
          {"runs",
           {{"count", facts.runs},
            {"finished", facts.finished},
            {"running", facts.running.size()},
            {"unfinished", facts.unfinished},
            {"not_begun", facts.not_begun},
            {"failed", facts.failed.size()}}},
          {"in_progress", in_progress},
          {"failures", failures},
          {"resume", facts.finished == facts.runs ? Json() : Json(run_command(folder))},
          {"report", facts.finished == 0 ? Json() : Json(report_command(folder))}};
}

void print_comparison(const fs::path& folder) {
  constexpr std::size_t kMostReason = 130;
  const ComparisonFacts facts = read_facts(folder);
  const Experiment& experiment = facts.experiment;
  std::printf("%s\n", one_line(folder.string()).c_str());
  print_fact("what", "comparison of " + size_text(experiment));
  if (!experiment.question.empty()) print_fact("question", experiment.question);
  print_fact("tasks", labels_text(experiment.tasks));
  if (experiment.has_learners()) print_fact("learners", labels_text(experiment.learners));
  print_fact("backbones", labels_text(experiment.backbones));
  print_fact("seeds", seeds_text(experiment.seeds));
  std::string runs = std::to_string(facts.finished) + " of " + std::to_string(facts.runs) + " finished";
  for (const auto& [count, what] :
       {std::pair(facts.running.size(), " running"), std::pair(facts.unfinished, " unfinished"),
        std::pair(facts.not_begun, " not begun"), std::pair(facts.failed.size(), " failed")})
    if (count > 0) runs += ", " + std::to_string(count) + what;
  print_fact("runs", runs);
  for (const auto& [run, steps] : facts.running) print_fact("  running", run.name() + ": " + progress_text(run, steps));
  for (const auto& [run, reason] : facts.failed) print_fact("  failed", shortened(run + ": " + reason, kMostReason));
  if (facts.finished < facts.runs) print_command("go on", run_command(folder));
  if (facts.finished > 0) print_command("report", report_command(folder));
  print_command("a run", shell_command({"engram", "inspect", (folder / "runs").string()}) +
                             (experiment.has_learners() ? "/TASK/LEARNER/BACKBONE/SEED" : "/TASK/BACKBONE/SEED"));
}

}  // namespace engram
