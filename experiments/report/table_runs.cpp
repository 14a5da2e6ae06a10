#include "experiments/report/table_runs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "envs/registry.h"
#include "experiments/report/text.h"
#include "experiments/results/csv.h"
#include "experiments/results/earlier_runs.h"

namespace engram {
namespace {

// The place of the entry of this label, which is added where there is none.
std::size_t place_in(std::vector<ExperimentEntry>& entries, const std::string& label) {
  const auto found = std::ranges::find(entries, label, &ExperimentEntry::label);
  if (found != entries.end()) return static_cast<std::size_t>(found - entries.begin());
  entries.push_back({label, {}});
  return entries.size() - 1;
}

// What a label says of its task, and whether that is all of it.
std::pair<TaskFacts, bool> facts_of(const std::string& label) {
  TaskFacts facts{label, {}, {}};
  const std::vector<std::string> names = task_and_preset_names();
  if (std::ranges::find(names, label) != names.end()) {
    const TaskConfig task = TaskConfig::named(label);
    facts.info = task.info();
    facts.random = play_at_random(task);
    return {std::move(facts), true};
  }
  std::string family;
  for (const std::string& name : task_names())
    if (label.starts_with(name + "_") && name.size() > family.size()) family = name;
  facts.info.name = family.empty() ? label : family;
  facts.info.chance_source = "the table does not say";
  if (family.empty()) return {std::move(facts), false};
  const TaskInfo info = TaskConfig(family).info();
  facts.info.chance_success = info.chance_success;
  facts.info.chance_source = info.chance_source;
  return {std::move(facts), false};
}

}  // namespace

bool is_runs_table(const std::filesystem::path& file) {
  if (file.extension() != ".csv") return false;
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;
  return read_table_file(file).starts_with("task,backbone,");
}

Results read_runs_table(const std::filesystem::path& file) {
  std::vector<RunResult> rows = EarlierRuns::parse(read_table_file(file), file).all();
  if (rows.empty()) throw UserError("'" + file.string() + "' has no run that is finished or has diverged");
  Results results{.folder = {}, .experiment = {}, .runs = {}, .tasks = {}, .sweep = {}, .notes = {}};
  results.settings_known = false;
  Experiment& experiment = results.experiment;
  std::map<std::size_t, PlannedRun> first_plans;  // by backbone
  std::map<std::tuple<std::size_t, std::size_t, std::uint64_t>, RunResult> runs;
  for (RunResult& row : rows) {
    const std::size_t task = place_in(experiment.tasks, row.plan.task);
    const std::string& learner = row.plan.learner;
    const std::size_t backbone = place_in(experiment.backbones, pair_label(row.plan.backbone, learner));
    if (first_plans.emplace(backbone, row.plan).first->second.control != row.plan.control)
      throw UserError("'" + file.string() + "' has runs of " + row.plan.backbone + " that are of different controls");
    if (std::ranges::find(experiment.seeds, row.plan.seed) == experiment.seeds.end())
      experiment.seeds.push_back(row.plan.seed);
    runs.emplace(std::tuple(task, backbone, row.plan.seed), std::move(row));
  }
  std::ranges::sort(experiment.seeds);
  experiment.reference = experiment.backbones.front().label;
  for (std::size_t task = 0; task < experiment.tasks.size(); ++task)
    for (std::size_t backbone = 0; backbone < experiment.backbones.size(); ++backbone) {
      // Of missing runs what is the same of all of this task and backbone.
      const auto first = runs.lower_bound({task, backbone, 0});
      const bool any =
          first != runs.end() && std::get<0>(first->first) == task && std::get<1>(first->first) == backbone;
      for (const std::uint64_t seed : experiment.seeds) {
        if (const auto found = runs.find({task, backbone, seed}); found != runs.end()) {
          results.runs.push_back(found->second);
          continue;
        }
        PlannedRun plan = first_plans.at(backbone);
        plan.task = experiment.tasks[task].label;
        plan.seed = seed;
        plan.budget = any ? first->second.plan.budget : Budget{};
        results.runs.push_back(RunResult::missing(std::move(plan)));
      }
    }
  // How long runs were planned the table does not say; of curves it is the longest of their task.
  std::map<std::string, std::int64_t> longest;
  for (const RunResult& run : results.runs)
    longest[run.plan.task] = std::max(longest[run.plan.task], run.metrics.steps);
  for (RunResult& run : results.runs) run.plan.config.run.steps = std::max<std::int64_t>(1, longest[run.plan.task]);

  std::vector<std::string> families;
  for (const ExperimentEntry& task : experiment.tasks) {
    auto [facts, whole] = facts_of(task.label);
    if (!whole && facts.info.name != task.label) families.push_back(task.label);
    results.tasks.push_back(std::move(facts));
  }
  results.planned = experiment;
  results.notes.push_back("This report is of a table of runs alone: settings are not known.");
  if (!families.empty())
    results.notes.push_back("Chance is that of the task by which the label begins, with its defaults, in " +
                            joined(families) + ".");
  return results;
}

}  // namespace engram
