#include "experiments/plan/plain_runs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "experiments/plan/budgets.h"
#include "experiments/plan/plan.h"
#include "experiments/report/text.h"
#include "storage/run/run_directory.h"
#include "storage/settings.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
using Values = std::map<std::string, std::string>;

constexpr const char* kFullState = "task.full_state";  // what the agent sees, not what the task is

// A run's settings by what they say something about.
struct PlainRun {
  fs::path folder;
  Config config;
  Values task, agent, others;
  std::size_t task_group = 0, agent_group = 0;
};

// Of the settings outside of task and memory: whether they may differ between runs of one group.
bool is_free(const std::string& key) {
  static const std::set<std::string> free = {"run.seed", "run.threads", "run.device", "run.report_seconds",
                                             "run.on_nan"};
  return free.contains(key) || key.starts_with("checkpoint.");
}

PlainRun read_plain_run(const fs::path& folder) {
  if (std::error_code error; fs::exists(experiment_file(folder), error))
    throw UserError("'" + folder.string() +
                    "' is the folder of a comparison, which has a report of its own: give it alone");
  const RunDirectory directory = RunDirectory::open(folder);
  PlainRun run{folder, read_config(directory.config_file()), {}, {}, {}};
  run.task["task.name"] = run.config.task.name();
  run.agent["memory.name"] = run.config.memory.name();
  run.others["learner.name"] = run.config.learner.name();
  for (const auto& [key, value, allowed, help] : run.config.values()) {
    if (key == kFullState) {
      if (value == "true") run.agent[key] = "true";
    } else if (key.starts_with("memory."))
      run.agent[key] = value;
    else if (key.starts_with("task."))
      run.task[key] = value;
    else if (!is_free(key))
      run.others[key] = value;
  }
  return run;
}

// The place of `values` among `groups`, to which it is added where it is new.
std::size_t group_of(std::vector<Values>& groups, const Values& values) {
  const auto found = std::ranges::find(groups, values);
  if (found != groups.end()) return static_cast<std::size_t>(found - groups.begin());
  groups.push_back(values);
  return groups.size() - 1;
}

std::string run_names(const PlainRun& a, const PlainRun& b) {
  return "runs '" + a.folder.string() + "' and '" + b.folder.string() + "'";
}

// The defaults of a task or a backbone.
template <class Choice>
Values defaults_of(const std::string& name) {
  Values values;
  for (const OptionValue& option : Choice(name).values()) values[option.name] = option.text;
  return values;
}

// "tmaze", or "tmaze corridor_length 20" where groups of the same name differ in that. Settings: what the label says,
// and what is not the default of the task or backbone (Choice).
template <class Choice>
std::vector<ExperimentEntry> entries_of(const std::vector<Values>& groups, const std::string& name_key) {
  std::vector<ExperimentEntry> entries;
  for (const Values& group : groups) {
    ExperimentEntry entry{group.at(name_key), {{name_key, group.at(name_key)}}};
    const Values defaults = defaults_of<Choice>(group.at(name_key));
    for (const auto& [key, value] : group) {
      const bool sees_all = key == kFullState;
      const auto differs = [&, &key = key, &value = value](const Values& other) {
        return other.at(name_key) == group.at(name_key) && other.at(key) != value;
      };
      if (key == name_key) continue;
      const bool tells_apart = sees_all || std::ranges::any_of(groups, differs);
      if (tells_apart || defaults.at(key) != value) entry.settings.emplace_back(key, value);
      if (tells_apart) entry.label += " " + key.substr(key.find('.') + 1) + (sees_all ? "" : " " + value);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

void check_group(const PlainRun& first, const PlainRun& run, const std::string& group) {
  for (const auto& [key, value] : run.others)
    if (const std::string& other = first.others.at(key); other != value)
      throw UserError(run_names(first, run) + " are both of " + group + " but differ in " + key + ": " + other +
                      " and " + value);
}

// The task of `of_task` for the agent of `of_agent`.
Config combined(const PlainRun& of_task, const PlainRun& of_agent) {
  Config config = of_task.config;
  config.memory = of_agent.config.memory;
  config.task.options().set(kFullState, of_agent.agent.contains(kFullState) ? "true" : "false");
  return config;
}

std::vector<std::string> notes_on(const std::vector<PlainRun>& runs) {
  std::map<std::string, std::set<std::string>> values;
  for (const PlainRun& run : runs)
    for (const auto& [key, value] : run.others) values[key].insert(value);
  std::vector<std::string> differing;
  for (const auto& [key, all] : values)
    if (all.size() > 1) differing.push_back(key + " (" + joined({all.begin(), all.end()}) + ")");
  if (differing.empty()) return {};
  return {"Settings besides task and memory that are not the same in all groups: " + joined(differing) + "."};
}

}  // namespace

Results read_plain_runs(const std::vector<fs::path>& folders) {
  std::vector<PlainRun> runs;
  std::vector<Values> tasks, agents;
  Results results{.folder = {}, .experiment = {}, .runs = {}, .tasks = {}, .sweep = {}, .notes = {}};
  Experiment& experiment = results.experiment;
  // First of all, what is not there: a word too many, beside the folder of a comparison, is what was wrong.
  for (const fs::path& folder : folders)
    if (std::error_code error; !fs::exists(folder, error)) RunDirectory::open(folder);
  for (const fs::path& folder : folders) {
    PlainRun run = read_plain_run(folder);
    run.task_group = group_of(tasks, run.task);
    run.agent_group = group_of(agents, run.agent);
    experiment.seeds.push_back(run.config.run.seed);
    runs.push_back(std::move(run));
  }
  std::ranges::sort(experiment.seeds);
  experiment.seeds.erase(std::unique(experiment.seeds.begin(), experiment.seeds.end()), experiment.seeds.end());
  experiment.tasks = entries_of<TaskConfig>(tasks, "task.name");
  experiment.backbones = entries_of<BackboneConfig>(agents, "memory.name");
  experiment.reference = experiment.backbones.front().label;

  for (std::size_t task = 0; task < tasks.size(); ++task)
    for (std::size_t agent = 0; agent < agents.size(); ++agent) {
      const std::string task_label = experiment.tasks[task].label, agent_label = experiment.backbones[agent].label;
      const PlainRun& of_task = *std::ranges::find(runs, task, &PlainRun::task_group);
      const PlainRun& of_agent = *std::ranges::find(runs, agent, &PlainRun::agent_group);
      const PlainRun* first = nullptr;
      for (const std::uint64_t seed : experiment.seeds) {
        const PlainRun* found = nullptr;
        for (const PlainRun& run : runs) {
          if (run.task_group != task || run.agent_group != agent || run.config.run.seed != seed) continue;
          if (found != nullptr)
            throw UserError(run_names(*found, run) + " are both of " + task_label + "/" + agent_label + " with seed " +
                            std::to_string(seed));
          found = &run;
        }
        if (found != nullptr && first != nullptr) check_group(*first, *found, task_label + "/" + agent_label);
        if (first == nullptr) first = found;
        PlannedRun plan{.task = task_label,
                        .backbone = agent_label,
                        .seed = seed,
                        .directory = found == nullptr ? fs::path() : found->folder,
                        .folder = found == nullptr ? fs::path() : found->folder,
                        .config = found == nullptr ? combined(of_task, of_agent) : found->config,
                        .budget = {}};
        plan.control = control_of(plan.config);
        plan.budget = budget_of(plan.config);
        results.runs.push_back(found == nullptr ? RunResult::missing(std::move(plan)) : read_run(std::move(plan)));
      }
    }
  results.planned = experiment;
  results.notes = notes_on(runs);
  add_facts(results);
  return results;
}

}  // namespace engram
