#include "experiments/plan/plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "agents/study/metrics_summary.h"
#include "base/error.h"
#include "base/text/json_text.h"
#include "base/text/words.h"
#include "experiments/plan/budgets.h"
#include "experiments/plan/entry_reader.h"
#include "experiments/plan/settings_json.h"
#include "experiments/plan/tune_record.h"
#include "storage/files.h"
#include "storage/run/run_directory.h"
#include "storage/run/run_lock.h"
#include "storage/settings.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

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
  if (!run.learner.empty()) json["learner"] = run.learner;
  if (run.tuned) json["tuned"] = settings_json(*run.tuned);
  json["steps"] = run.config.run.steps;
  json["command"] = train_command(run);
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

// Plans the runs of a task, a learner and a backbone.
class Planner {
 public:
  explicit Planner(const Experiment& experiment)
      : experiment_(experiment), matcher_(experiment.match, experiment.match_mlp.value_or(true)) {
    reference_ = find_entry(experiment.backbones, experiment.reference);
    if (reference_ == nullptr)
      throw UserError("compare.reference '" + experiment.reference +
                      "' is none of the backbones; add it to --backbones, or give --reference or --match none");
  }

  // Of the first of `seeds`, with matched sizes, without a folder.
  PlannedRun plan(const ExperimentEntry& task, const ExperimentEntry& learner, const ExperimentEntry& backbone,
                  const std::vector<std::uint64_t>& seeds, const Settings& tuned) {
    PlannedRun run{.task = task.label,
                   .backbone = backbone.label,
                   .learner = learner.label,
                   .folder = {},
                   .config = experiment_.config(task, learner, backbone, seeds.front(), tuned),
                   .budget = {}};
    run.control = control_of(run.config);
    // Settings of the memory that are tuned may change what the reference costs: it is held to its own, too. A control
    // without memory has no state to match.
    const bool resized =
        std::ranges::any_of(tuned, [](const auto& setting) { return section_of(setting.first) == "memory"; });
    const bool keeps_sizes = experiment_.match == Match::kNone || (&backbone == reference_ && !resized) ||
                             (experiment_.match == Match::kState && run.config.memory.name() == "none");
    const std::string where = run.place() + (tuned.empty() ? "" : " with " + settings_text(tuned));
    run.budget = keeps_sizes ? budget_of(run.config) : matcher_.match(run.config, goal_of(task, learner), where);
    return run;
  }

 private:
  // What the reference costs by the experiment's own settings.
  const Budget& goal_of(const ExperimentEntry& task, const ExperimentEntry& learner) {
    const auto [found, is_new] = goals_.try_emplace({task.label, learner.label});
    if (is_new) found->second = budget_of(experiment_.config(task, learner, *reference_, experiment_.seeds.front()));
    return found->second;
  }

  const Experiment& experiment_;
  const ExperimentEntry* reference_ = nullptr;
  SizeMatcher matcher_;
  std::map<std::pair<std::string, std::string>, Budget> goals_;
};

// The runs of these seeds, each with its folder in `directory`.
void add_seeds(std::vector<PlannedRun>& runs, PlannedRun run, const std::vector<std::uint64_t>& seeds,
               const fs::path& directory) {
  for (const std::uint64_t seed : seeds) {
    run.seed = run.config.run.seed = seed;
    run.directory = directory;
    run.folder = directory / "runs" / run.name();
    runs.push_back(run);
  }
}

// Of the settings to try those that the config has.
std::vector<TunedSetting> settings_for(const TuneOptions& tune, const Config& config) {
  std::vector<TunedSetting> own;
  const std::vector<OptionValue> values = config.values();
  for (const TunedSetting& setting : tune.settings)
    if (std::ranges::any_of(values, [&](const OptionValue& value) { return value.name == setting.key; }))
      own.push_back(setting);
  return own;
}

// Throws UserError unless all memories have as many tries; a control may have fewer, where it lacks a setting.
void check_equal_tries(const std::vector<TunedPlace>& places) {
  const TunedPlace* first = nullptr;
  for (const TunedPlace& place : places) {
    if (place.runs.front().control != Control::kNone) continue;
    if (first == nullptr) first = &place;
    if (place.tries.size() == first->tries.size()) continue;
    throw UserError("[tune] has " + counted(first->tries.size(), "try", "tries") + " for " + first->place + " and " +
                    std::to_string(place.tries.size()) + " for " + place.place +
                    ", which do not have the same settings; give tries = " +
                    std::to_string(std::min(first->tries.size(), place.tries.size())) + " or fewer, as many for each");
  }
}

}  // namespace

std::vector<PlannedRun> plan_runs(const Experiment& experiment, const fs::path& directory, const TuneRecords& earlier) {
  std::vector<PlannedRun> runs;
  Planner planner(experiment);
  for (const ExperimentEntry& task : experiment.tasks)
    for (const ExperimentEntry& backbone : experiment.backbones)
      for (const ExperimentEntry& learner : experiment.learners) {
        std::optional<Settings> chosen;
        const std::string place = place_of(task.label, learner.label, backbone.label);
        if (experiment.tune) chosen = read_tune_record(record_file(tuning_folder(directory), place)).chosen;
        if (const auto known = earlier.find(place); !chosen && known != earlier.end()) chosen = known->second.chosen;
        PlannedRun run = planner.plan(task, learner, backbone, experiment.seeds, chosen.value_or(Settings{}));
        run.range = experiment.range;
        run.tuned = std::move(chosen);
        add_seeds(runs, std::move(run), experiment.seeds, directory);
      }
  return runs;
}

std::vector<TunedPlace> plan_tries(const Experiment& experiment, const fs::path& tuning) {
  const TuneOptions& tune = experiment.tune.value();
  std::vector<TunedPlace> places;
  Planner planner(experiment);
  std::set<std::string> used;
  for (const ExperimentEntry& task : experiment.tasks)
    for (const ExperimentEntry& backbone : experiment.backbones)
      for (const ExperimentEntry& learner : experiment.learners) {
        const std::vector<TunedSetting> own =
            settings_for(tune, experiment.config(task, learner, backbone, tune.seeds.front()));
        for (const TunedSetting& setting : own) used.insert(setting.key);
        TunedPlace& place = places.emplace_back();
        place.tries = tries_of(own, tune.tries, tune.draw_seed);
        for (std::size_t i = 0; i < place.tries.size(); ++i) {
          PlannedRun run = planner.plan(task, learner, backbone, tune.seeds, place.tries[i]);
          place.place = run.place();
          run.try_number = static_cast<int>(i) + 1;
          run.tuned = place.tries[i];
          add_seeds(place.runs, std::move(run), tune.seeds, tuning);
        }
      }
  for (const TunedSetting& setting : tune.settings)
    if (!used.contains(setting.key))
      throw UserError("tune." + setting.key + ": no backbone or learner of the experiment has this setting");
  check_equal_tries(places);
  return places;
}

RunState read_run_state(const PlannedRun& run) {
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
  if (const fs::path file = failure_file(run);
      state.stage != RunStage::kFinished && !state.running && fs::is_regular_file(file, error)) {
    state.stage = RunStage::kFailed;
    state.failure = read_failure(file);
  }
  return state;
}

std::vector<std::string> train_arguments(const std::vector<const PlannedRun*>& runs) {
  const PlannedRun& first = *runs.front();
  const bool alone = runs.size() == 1;
  std::vector<std::uint64_t> seeds;
  for (const PlannedRun* run : runs) seeds.push_back(run->seed);
  std::ranges::sort(seeds);
  std::vector<std::string> arguments = {"train",
                                        "--config",
                                        config_file(first).string(),
                                        alone ? "--seed" : "--seeds",
                                        seeds_text(seeds),
                                        "--resume",
                                        "auto",
                                        "--run",
                                        (alone ? first.folder : first.folder.parent_path()).string()};
  // A try goes on from rung to rung, with one config.
  if (first.try_number > 0) arguments.insert(arguments.end(), {"--run.steps", std::to_string(first.config.run.steps)});
  return arguments;
}

std::string train_command(const PlannedRun& run) { return "engram " + shell_command(train_arguments({&run})); }

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

void write_try_configs(const std::vector<TunedPlace>& places) {
  for (const TunedPlace& place : places)
    for (const PlannedRun& run : place.runs)
      if (run.seed == place.runs.front().seed) write_if_new(config_file(run), run.config.to_ini());
}

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
    if (run.seed == experiment.seeds.front()) write_if_new(config_file(run), run.config.to_ini());
    plan["runs"].push_back(run_json(directory, run));
  }
  write_if_new(directory / "plan.json", json_text(plan, 2) + "\n");
}

}  // namespace engram
