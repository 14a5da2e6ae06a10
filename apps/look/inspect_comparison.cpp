// What the folder of a comparison holds and how far its runs are.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/screen_table.h"
#include "apps/look/inspect.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/plan/experiment.h"
#include "experiments/plan/plan.h"
#include "experiments/plan/settings_json.h"
#include "experiments/plan/tune_record.h"
#include "experiments/report/text.h"
#include "experiments/results/earlier_runs.h"
#include "experiments/results/results.h"
#include "experiments/run/tune_progress.h"
#include "storage/run/run_failure.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ComparisonFacts {
  Experiment experiment;
  std::size_t runs = 0, finished = 0, unfinished = 0, not_begun = 0;
  std::vector<std::pair<PlannedRun, std::int64_t>> running;  // and environment steps
  std::vector<std::pair<std::string, RunFailure>> diverged, failed;
  std::vector<PlaceProgress> tuning;  // empty where nothing is tuned

  std::size_t ended() const { return finished + diverged.size(); }  // nothing is left to do of these
};

ComparisonFacts read_facts(const fs::path& folder) {
  ComparisonFacts facts;
  facts.experiment = Experiment::read(folder);
  const std::vector<PlannedRun> runs = plan_runs(facts.experiment, folder);
  facts.runs = runs.size();
  if (facts.experiment.tune) {
    const fs::path tuning = tuning_folder(folder);
    facts.tuning = tune_progress(tuning, *facts.experiment.tune, plan_tries(facts.experiment, tuning));
  }
  const EarlierRuns earlier = EarlierRuns::of(folder);
  for (const PlannedRun& run : runs) {
    try {
      const RunState state = read_run_state(run, earlier);
      if (state.stage == RunStage::kFailed)
        (state.diverged() ? facts.diverged : facts.failed).emplace_back(run.name(), state.failure);
      else if (state.running)
        facts.running.emplace_back(run, summarize_metrics(RunDirectory::open(run.folder).metrics_file()).steps);
      else
        ++(state.stage == RunStage::kFinished  ? facts.finished
           : state.stage == RunStage::kMissing ? facts.not_begun
                                               : facts.unfinished);
    } catch (const UserError& error) {  // a run of other settings in its place
      facts.failed.emplace_back(run.name(), RunFailure{FailureKind::kRefused, error.what()});
    }
  }
  return facts;
}

std::size_t chosen_places(const std::vector<PlaceProgress>& tuning) {
  return static_cast<std::size_t>(
      std::ranges::count_if(tuning, [](const PlaceProgress& place) { return place.chosen.has_value(); }));
}

std::int64_t steps_ahead(const std::vector<PlaceProgress>& tuning) {
  std::int64_t steps = 0;
  for (const PlaceProgress& place : tuning) steps += place.steps_ahead;
  return steps;
}

// "rung 2 of 3 (to 50% of the steps): 2 tries left, 3 of 4 runs finished, 1 running; 1,200 steps ahead"
std::string standing_text(const PlaceProgress& place, const TuneOptions& options) {
  if (place.rungs == 0) return "one try, nothing to choose from";
  std::string text = "rung " + std::to_string(place.rung) + " of " + std::to_string(place.rungs) +
                     formatted(" (to %g%% of the steps): ", 100 * options.rungs[place.rung - 1]) +
                     counted(place.tries, "try", "tries") + " left, " + std::to_string(place.finished) + " of " +
                     counted(place.runs, "run") + " finished";
  for (const auto& [count, what] : {std::pair(place.running, " running"), std::pair(place.diverged, " diverged"),
                                    std::pair(place.failed, " failed")})
    if (count > 0) text += ", " + std::to_string(count) + what;
  return text + "; " + count_with_commas(place.steps_ahead) + " steps ahead";
}

Json tuning_json(const std::vector<PlaceProgress>& tuning) {
  if (tuning.empty()) return {};
  Json places = Json::array();
  for (const PlaceProgress& place : tuning)
    places.push_back({{"place", place.place},
                      {"chosen", place.chosen ? settings_json(*place.chosen) : Json()},
                      {"rung", place.rung},
                      {"rungs", place.rungs},
                      {"tries", place.tries},
                      {"runs",
                       {{"count", place.runs},
                        {"finished", place.finished},
                        {"running", place.running},
                        {"diverged", place.diverged},
                        {"failed", place.failed}}},
                      {"steps_ahead", place.steps_ahead}});
  return {{"chosen", chosen_places(tuning)}, {"steps_ahead", steps_ahead(tuning)}, {"places", std::move(places)}};
}

// What is chosen as one figure; of the rest those that are furthest first.
void print_tuning(const std::vector<PlaceProgress>& tuning, const TuneOptions& options) {
  constexpr std::size_t kMostPlaces = 12;
  const std::size_t chosen = chosen_places(tuning);
  print_fact("tuning", std::to_string(chosen) + " of " + counted(tuning.size(), "place") + " chosen" +
                           (chosen == tuning.size() ? ""
                                                    : "; " + count_with_commas(steps_ahead(tuning)) +
                                                          " environment steps ahead, before the runs themselves"));
  std::vector<const PlaceProgress*> open;
  for (const PlaceProgress& place : tuning)
    if (!place.chosen) open.push_back(&place);
  std::ranges::stable_sort(open, std::ranges::greater(),
                           [](const PlaceProgress* place) { return std::pair(place->rung, place->finished); });
  for (std::size_t i = 0; i < std::min(open.size(), kMostPlaces); ++i)
    print_fact("", open[i]->place + ": " + standing_text(*open[i], options));
  if (open.size() > kMostPlaces)
    print_fact("", "and " + std::to_string(open.size() - kMostPlaces) + " more, which --json lists");
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
  for (const auto* const runs : {&facts.diverged, &facts.failed})
    for (const auto& [run, failure] : *runs)
      failures.push_back({{"run", run}, {"kind", failure_name(failure.kind)}, {"reason", failure.reason}});
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
            {"diverged", facts.diverged.size()},
            {"failed", facts.failed.size()}}},
          {"tuning", tuning_json(facts.tuning)},
          {"in_progress", in_progress},
          {"failures", failures},
          {"resume", facts.ended() == facts.runs ? Json() : Json(run_command(folder))},
          {"report", facts.ended() == 0 ? Json() : Json(report_command(folder))}};
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
        std::pair(facts.not_begun, " not begun"), std::pair(facts.diverged.size(), " diverged"),
        std::pair(facts.failed.size(), " failed")})
    if (count > 0) runs += ", " + std::to_string(count) + what;
  if (experiment.tune) print_tuning(facts.tuning, *experiment.tune);
  print_fact("runs", runs);
  for (const auto& [run, steps] : facts.running) print_fact("  running", run.name() + ": " + progress_text(run, steps));
  for (const auto& [run, failure] : facts.diverged)
    print_fact("  diverged", shortened(run + ": " + failure.reason, kMostReason));
  for (const auto& [run, failure] : facts.failed)
    print_fact("  failed", shortened(run + ": " + failure_text(failure), kMostReason));
  if (facts.ended() < facts.runs) print_command("go on", run_command(folder));
  if (facts.ended() > 0) print_command("report", report_command(folder));
  print_command("a run", shell_command({"engram", "inspect", (folder / "runs").string()}) +
                             (experiment.has_learners() ? "/TASK/LEARNER/BACKBONE/SEED" : "/TASK/BACKBONE/SEED"));
}

}  // namespace engram
