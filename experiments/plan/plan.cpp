#include "experiments/plan/plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "agents/study/metrics_summary.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/words.h"
#include "experiments/plan/budgets.h"
#include "storage/files.h"
#include "storage/run_directory.h"
#include "storage/run_lock.h"
#include "storage/settings.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxReasonBytes = 2000;

void create_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_error("folder '" + folder.string() + "' cannot be created", error.value());
}

void write_if_new(const fs::path& file, const std::string& text) {
  std::ostringstream present;
  if (std::ifstream stream(file, std::ios::binary); stream) present << stream.rdbuf();
  if (present.str() == text) return;
  create_folders(file.parent_path());
  replace_file(file, [&](std::ostream& stream) { stream << text; });
}

std::string first_line(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string line(kMaxReasonBytes, '\0');
  stream.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return one_line(line.substr(0, line.find('\n')));
}

// Whether the run that `saved` describes was asked for as much as `planned`.
bool same_length(const Config& saved, const Config& planned) {
  return saved.run.steps == planned.run.steps && saved.run.max_seconds == planned.run.max_seconds &&
         saved.evaluation.stop_at_success == planned.evaluation.stop_at_success &&
         saved.evaluation.final_episodes == planned.evaluation.final_episodes;
}

// Whether the run's best weights are evaluated over the whole range, if there is one.
bool range_is_evaluated(const PlannedRun& run, const FinalEvaluation& last) {
  if (!run.range) return true;
  try {
    const auto points = points_of_run(run.folder, *run.range, last);
    return std::ranges::all_of(points, [](const auto& point) { return point.has_value(); });
  } catch (const UserError&) {
    return false;  // damaged: it is made anew
  }
}

Json run_json(const fs::path& directory, const PlannedRun& run) {
  Json json = {{"task", run.task},
               {"backbone", run.backbone},
               {"seed", run.seed},
               {"folder", run.folder.lexically_relative(directory).string()},
               {"control", control_name(run.control)},
               {"memory", run.config.memory.name()}};
  for (const BudgetPart& part : kBudgetParts) json[part.name] = run.budget.*part.value;
  json["steps"] = run.config.run.steps;
  json["command"] = train_command(directory, run);
  return json;
}

// Gives backbones the sizes at which they cost what a reference does, and searches for the same sizes once: tasks
// differ in the length of their episodes at most.
class SizeMatcher {
 public:
  SizeMatcher(Match match, bool with_mlp) : match_(match), with_mlp_(with_mlp) {}

  Budget match(Config& config, const Budget& goal, const std::string& where) {
    const std::string key = key_of(config, goal);
    if (const auto known = known_.find(key); known != known_.end()) {
      config.memory = known->second;
      return budget_of(config);
    }
    const Budget budget = with_mlp_ ? match_sizes(config, match_, goal, where)
                                    : match_width(config, match_, matched_figure(goal, match_), where);
    known_.emplace(key, config.memory);
    return budget;
  }

 private:
  // All that the sizes depend on: parameters are as many for any length.
  std::string key_of(const Config& config, const Budget& goal) const {
    const bool by_length = match_ != Match::kParameters;
    std::string key = config.memory.name() + " " + std::to_string(matched_figure(goal, match_)) + " " +
                      std::to_string(matched_mlp_figure(goal, match_)) + " " +
                      std::to_string(by_length ? config.task.info().max_episode_steps : 0);
    for (const OptionValue& option : config.memory.values()) key += "\n" + option.name + "=" + option.text;
    return key;
  }

  Match match_;
  bool with_mlp_;
  std::map<std::string, BackboneConfig> known_;
};

}  // namespace

std::vector<PlannedRun> plan_runs(const Experiment& experiment, const fs::path& directory) {
  const ExperimentEntry* const reference = find_entry(experiment.backbones, experiment.reference);
  if (reference == nullptr)
    throw UserError("compare.reference '" + experiment.reference +
                    "' is none of the backbones; add it to --backbones, or give --reference or --match none");
  std::vector<PlannedRun> runs;
  SizeMatcher matcher(experiment.match, experiment.match_mlp.value_or(true));
  for (const ExperimentEntry& task : experiment.tasks) {
    const Budget goal = budget_of(experiment.config(task, *reference, experiment.seeds.front()));
    for (const ExperimentEntry& backbone : experiment.backbones) {
      PlannedRun run{.task = task.label,
                     .backbone = backbone.label,
                     .folder = {},
                     .config = experiment.config(task, backbone, experiment.seeds.front()),
                     .budget = {}};
      run.control = control_of(run.config);
      run.range = experiment.range;
      // A control without memory has no state to match.
      const bool keeps_sizes = experiment.match == Match::kNone || &backbone == reference ||
                               (experiment.match == Match::kState && run.config.memory.name() == "none");
      const std::string where = run.task + "/" + run.backbone;
      run.budget = keeps_sizes ? budget_of(run.config) : matcher.match(run.config, goal, where);
      for (const std::uint64_t seed : experiment.seeds) {
        run.seed = run.config.run.seed = seed;
        run.folder = directory / "runs" / run.task / run.backbone / std::to_string(seed);
        runs.push_back(run);
      }
    }
  }
  return runs;
}

RunState read_run_state(const fs::path& directory, const PlannedRun& run) {
  RunState state;
  std::error_code error;
  if (RunDirectory::is_run(run.folder)) {
    const std::string where = "run '" + run.folder.string() + "'";
    const RunDirectory saved_run = RunDirectory::open(run.folder);
    const Config saved = read_config(saved_run.config_file());
    check_same_run(saved, run.config, where);
    const auto last = summarize_metrics(saved_run.metrics_file()).final_evaluation;
    state.running = RunLock::held(run.folder);
    state.trained = last && same_length(saved, run.config) && !state.running;
    state.stage = state.trained && range_is_evaluated(run, *last) ? RunStage::kFinished : RunStage::kUnfinished;
  }
  if (const fs::path file = failure_file(directory, run);
      state.stage != RunStage::kFinished && !state.running && fs::is_regular_file(file, error)) {
    state.stage = RunStage::kFailed;
    state.reason = first_line(file);
  }
  return state;
}

std::vector<std::string> train_arguments(const fs::path& directory, const std::vector<const PlannedRun*>& runs) {
  const PlannedRun& first = *runs.front();
  const bool alone = runs.size() == 1;
  std::vector<std::uint64_t> seeds;
  for (const PlannedRun* run : runs) seeds.push_back(run->seed);
  std::ranges::sort(seeds);
  return {"train",
          "--config",
          config_file(directory, first).string(),
          alone ? "--seed" : "--seeds",
          seeds_text(seeds),
          "--resume",
          "auto",
          "--run",
          (alone ? first.folder : first.folder.parent_path()).string()};
}

std::string train_command(const fs::path& directory, const PlannedRun& run) {
  return "engram " + shell_command(train_arguments(directory, {&run}));
}

std::vector<std::string> evaluate_arguments(const PlannedRun& run) {
  return {"evaluate",   run.folder.string(),
          "--range",    run.range.value().text(),
          "--episodes", std::to_string(run.config.evaluation.final_episodes),
          "--keep"};
}

Control control_of(const Config& config) {
  const bool recurrent = config.memory.name() != "none";
  if (value_text(config.task.values(), "task.full_state") == "true")
    return recurrent ? Control::kFullStateRecurrent : Control::kFullState;
  return recurrent ? Control::kNone : Control::kMemoryless;
}

namespace {

struct ControlWords {
  const char *name, *meaning;
};

ControlWords words_of(Control control) {
  switch (control) {
    case Control::kNone:
      return {"none", ""};
    case Control::kMemoryless:
      return {"memoryless", "what can be had without memory"};
    case Control::kFullState:
      return {"full_state",
              "what an agent reaches that sees all that the task asks to remember, and itself remembers nothing, not "
              "even where it has searched"};
    case Control::kFullStateRecurrent:
      return {"full_state_recurrent",
              "what the reference's memory could give if it had to carry nothing over the delay"};
  }
  return {"", ""};
}

}  // namespace

const char* control_name(Control control) { return words_of(control).name; }
const char* control_meaning(Control control) { return words_of(control).meaning; }

void write_plan(const fs::path& directory, const Experiment& experiment, std::vector<PlannedRun> runs) {
  write_if_new(experiment_file(directory), experiment.to_ini());  // first: it says what the folder is
  Json plan = {{"question", experiment.question},
               {"match", experiment.match == Match::kNone ? "none" : figure_name(experiment.match)},
               {"reference", experiment.reference},
               {"evaluate", experiment.range ? Json(experiment.range->text()) : Json()},
               {"tasks", Json::array()},
               {"runs", Json::array()}};
  for (const ExperimentEntry& task : experiment.tasks) {
    const TaskInfo info = experiment.config(task, experiment.backbones.front(), experiment.seeds.front()).task.info();
    plan["tasks"].push_back({{"label", task.label},
                             {"name", info.name},
                             {"chance_success", info.chance_success ? Json(*info.chance_success) : Json()},
                             {"chance_source", info.chance_source},
                             {"max_episode_steps", info.max_episode_steps}});
  }
  for (PlannedRun& run : runs) {
    if (run.seed == experiment.seeds.front()) write_if_new(config_file(directory, run), run.config.to_ini());
    plan["runs"].push_back(run_json(directory, run));
  }
  write_if_new(directory / "plan.json", json_text(plan, 2) + "\n");
}

}  // namespace engram
