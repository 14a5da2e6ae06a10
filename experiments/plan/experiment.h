// Experiment: tasks x backbones x seeds, and learners where there are several, what `engram compare` runs and reports
// on. One INI file defines it:
//
//   [compare]
//   question = Which memory carries a colour over a longer delay?
//   seeds = 0-4                  # also "0-4,8"
//   match = parameters           # parameters | state | flops | none: what widths are chosen to agree in
//   match_mlp = true             # whether the MLPs' widths are chosen, too (budgets.h)
//   reference = hqlt             # the backbone whose sizes stay
//   controls = none,full_state   # added as backbones where the file does not write them out; may be empty
//   evaluate = task.corridor_length: 10,20,50   # optional: where every trained agent is evaluated, too
//   backbones_of = other.ini     # optional: the sections [backbones.LABEL] of an experiment in the same folder come
//                                # before those of this file, which may add to them
//
//   [task]                       # settings of every run, in the sections of a run's config
//   name = visual_match
//
//   [tasks.delay_250]            # a task: its label, and settings that override those above; there may be none. A
//   task.distractor_steps = 250  # label that is the name of a task or a preset says which, where nothing else does
//
//   [tasks.delay_500]
//   like = delay_250             # optional, first: has the settings of a section before it, which those below override
//   task.distractor_steps = 500
//
//   [backbones.hqlt]             # a backbone, in the same way; without the line below it would be hqlt by its label
//   memory.name = hqlt
//
//   [learners.ppo]               # optional, a third axis: a learner, in the same way. A setting of a backbone wins
//   over run.num_envs = 64            # one of a learner, and that over one of a task
//
//   [tune]                       # optional: settings to choose before the runs, for each task, learner and backbone
//   seeds = 100-101              # (tune_options.h)
//   learner.learning_rate = 3e-4, 1e-3
//
// Its directory, where TASK/BACKBONE is TASK/LEARNER/BACKBONE if the file has learners:
//
//   experiment.ini                       the experiment, in the same form; a later call goes on from it
//   plan.json                            its runs, with budgets and commands (plan.h)
//   configs/TASK/BACKBONE.ini            every setting of those runs but the seed
//   runs/TASK/BACKBONE/SEED/             a run directory each (storage/run/run_directory.h), with evaluations.json
//   where
//                                        the experiment has a range (evaluation_range.h)
//   output/TASK/BACKBONE/SEED.txt        what the run's program printed last
//   failures/TASK/BACKBONE/SEED.txt      one line: why its last attempt failed; none of a run that has not failed
//   tune/                                configs, runs, output and failures of the tries, a folder TASK/BACKBONE/TRY
//                                        each, and records/TASK/BACKBONE.json (tune_record.h): what was chosen
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agents/run/config/config.h"
#include "agents/study/evaluation_range.h"
#include "experiments/plan/lists.h"
#include "experiments/plan/tune_options.h"
#include "experiments/plan/tune_record.h"
#include "storage/run/run_failure.h"

namespace engram {

// What the sizes of the backbones are chosen to agree in; kNone: the settings' own sizes.
enum class Match { kNone, kParameters, kState, kFlops };

// What a comparison holds its memories against. Each says how far an agent gets in the same steps:
//   kMemoryless           `none`: without memory
//   kFullState            `full_state`: without memory, which the observation makes needless for the task itself
//                         (task.full_state); it still cannot remember where it has searched
//   kFullStateRecurrent   `full_state_recurrent`: the same observation with the reference's memory: what that memory
//                         could give if it had to carry nothing over the delay
enum class Control { kNone, kMemoryless, kFullState, kFullStateRecurrent };

// A task, a learner or a backbone of an experiment.
struct ExperimentEntry {
  std::string label;  // a name of letters, digits, "_", "-" and "+": also that of a folder
  Settings settings;  // (section.key, value); a layer above the experiment's own
};

// The costs of the backbone of one run, counted from its module: ModelCost (memory/core/sequence_model.h).
struct Budget {
  std::int64_t width = 0;
  std::int64_t parameters = 0;
  std::int64_t state_bytes = 0;     // of one environment's memory
  std::int64_t flops_per_step = 0;  // 2 x multiply-adds of a step; attention at a full window or cache
  // The MLPs' part of it; the rest is the memory's.
  std::int64_t mlp_width = 0;  // hidden units of a layer's; 0 where that is no option of the backbone
  std::int64_t mlp_parameters = 0;
  std::int64_t mlp_flops_per_step = 0;

  friend bool operator==(const Budget&, const Budget&) = default;
};

// Its parts under the names that files have for them, in their order.
struct BudgetPart {
  const char* name;
  std::int64_t Budget::*value;
};
inline constexpr BudgetPart kBudgetParts[] = {{"width", &Budget::width},
                                              {"parameters", &Budget::parameters},
                                              {"state_bytes", &Budget::state_bytes},
                                              {"flops_per_step", &Budget::flops_per_step},
                                              {"mlp_width", &Budget::mlp_width},
                                              {"mlp_parameters", &Budget::mlp_parameters},
                                              {"mlp_flops_per_step", &Budget::mlp_flops_per_step}};

// "gru by ppo"; the backbone's own label where the learner has none.
std::string pair_label(const std::string& backbone, const std::string& learner);

// "TASK/BACKBONE", or "TASK/LEARNER/BACKBONE" where the learner has a label.
std::string place_of(const std::string& task, const std::string& learner, const std::string& backbone);

struct PlannedRun {
  std::string task, backbone;  // labels
  std::string learner = {};    // the same; empty where the experiment has none
  int try_number = 0;          // in tuning, from 1; 0: a run of the comparison itself
  std::uint64_t seed = 0;
  std::filesystem::path directory = {};  // of the experiment, or of its tuning: the folders of config, failure, output
  std::filesystem::path folder;          // the run directory
  Config config;                         // every value, the matched sizes included
  Control control = Control::kNone;
  Budget budget;
  std::optional<EvaluationRange> range = {};  // of the experiment
  // What tuning has chosen, which the config has; nothing where there is no tuning, or none yet.
  std::optional<Settings> tuned = {};

  // place_of(), in tuning with "/tryN" behind it: what runs that differ in their seed alone have in common, and their
  // place in each of the experiment's folders.
  std::string place() const;
  std::string name() const { return place() + "/" + std::to_string(seed); }
};

enum class RunStage {
  kMissing,     // not begun
  kUnfinished,  // begun; it can go on
  kFinished,    // trained, and evaluated over the experiment's range
  kFailed       // its last attempt has failed
};

struct RunState {
  RunStage stage = RunStage::kMissing;
  bool trained = false;  // its final evaluation is made, with the experiment's length and limits
  bool running = false;  // a program trains in it now
  RunFailure failure;    // of its last attempt, where that is the stage

  // Whether its training has. Where evaluations over the range have, of what is trained, its success is known.
  bool diverged() const { return stage == RunStage::kFailed && !trained && failure.kind == FailureKind::kDiverged; }
  // Whether a comparison leaves it as it is. Divergence is a result: to try a seed until it does not would be to
  // select.
  bool ended() const { return stage == RunStage::kFinished || diverged(); }
};

struct Experiment {
  static constexpr const char* kDefaultControls = "none,full_state";

  std::optional<int> format;  // of the file, where it says one: config_format() of all runs
  std::string question;
  Match match = Match::kNone;
  // Whether the MLPs' widths are chosen, too, where parameters or flops are matched. Nothing: the file does not say,
  // and they are.
  std::optional<bool> match_mlp;
  std::string reference;  // label of a backbone; the first where the file names none
  Settings common;
  std::vector<ExperimentEntry> tasks, backbones;  // in the order of the file, the controls last
  std::vector<ExperimentEntry> learners = {{}};   // one without a label where the file has no such section
  std::vector<std::uint64_t> seeds;               // ascending
  std::optional<TuneOptions> tune;
  std::optional<EvaluationRange> range;  // where trained agents are evaluated besides their own task

  // Throw UserError, with the line of the file, for an unknown key, an unsafe label, no task, backbone or seed, a
  // control's label at what is not that control, or run.seed as a setting. Values, and what goes together, are looked
  // at in config(). `more`: settings of [compare] that override those of the file.
  static Experiment from_settings(const SettingsLayer& file, const Settings& more = {});
  static Experiment from_file(const std::filesystem::path& file, const Settings& more = {});
  // That of a directory; one that does not say match_mlp was begun by a version that chose widths alone, and one
  // without a format by one that knew format 1 alone: presets then lay below all other settings, and labels said
  // nothing. Throws UserError if it is none.
  static Experiment read(const std::filesystem::path& directory, const Settings& more = {});

  std::string to_ini() const;

  // Keeps the entries of these labels alone, in the experiment's order. Throw UserError for an unknown one.
  void select_tasks(const std::vector<std::string>& labels);
  void select_backbones(const std::vector<std::string>& labels);
  void select_learners(const std::vector<std::string>& labels);
  // Gives every run these settings, whatever its task and backbone say. Throws UserError for a value that an INI file
  // cannot hold.
  void override_settings(const Settings& settings);
  // Adds what `saved`, the experiment of the same directory, has beside this one, and takes its format. Throws
  // UserError, naming the setting and both values, if a run of `saved` cannot go on with this experiment's settings;
  // `where` names the directory.
  void add_saved(const Experiment& saved, const std::string& where);

  bool has_learners() const { return !learners.front().label.empty(); }

  // The config of one run with the width that the settings give; `tuned` wins over all of them. Throws UserError, with
  // the labels, for settings that do not go together, and for a range that its agents cannot be evaluated over.
  Config config(const ExperimentEntry& task, const ExperimentEntry& learner, const ExperimentEntry& backbone,
                std::uint64_t seed, const Settings& tuned = {}) const;
  // Of the first learner.
  Config config(const ExperimentEntry& task, const ExperimentEntry& backbone, std::uint64_t seed) const {
    return config(task, learners.front(), backbone, seed);
  }

  // The same runs without the axis of learners: a backbone "gru by ppo" of each pair, backbone by backbone.
  Experiment by_learner() const;
};

// The sections that an experiment's file has and a run's config has not, as "[compare], [tasks.LABEL]"; empty where
// there is none.
std::string experiment_sections(const SettingsLayer& layer);
// read_settings() of a run's config file; throws UserError for that of an experiment.
SettingsLayer read_run_settings(const std::filesystem::path& file);

// "2 tasks x 3 backbones x 1 seed", "2 tasks x 2 learners x 3 backbones x 1 seed"
std::string size_text(const Experiment& experiment);

// The entry of this label, or null.
const ExperimentEntry* find_entry(const std::vector<ExperimentEntry>& entries, const std::string& label);

// All runs of the experiment in `directory`, task by task, backbone by backbone, learner by learner, seed by seed, with
// what tuning has chosen, there or else in `earlier`, matched sizes and budgets. Throws UserError for settings that do
// not go together, or if a backbone cannot be matched within 3%.
std::vector<PlannedRun> plan_runs(const Experiment& experiment, const std::filesystem::path& directory,
                                  const TuneRecords& earlier = {});

// Where the run stands, from its files, which are not trusted. Throws UserError if the folder holds a run of other
// settings, naming the first that differs.
RunState read_run_state(const PlannedRun& run);

std::filesystem::path experiment_file(const std::filesystem::path& directory);
std::filesystem::path config_file(const PlannedRun& run);
std::filesystem::path failure_file(const PlannedRun& run);
std::filesystem::path output_file(const PlannedRun& run);

}  // namespace engram
