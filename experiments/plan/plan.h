// The plan of an experiment on disk: what `engram compare` writes before it runs anything.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/plan/experiment.h"

namespace engram {

// Writes experiment.ini, configs/ and plan.json where they differ from what is there; creates the folders. `runs`: all
// of the experiment. plan.json is an object: question, match, reference, evaluate (null without a range), tasks (label,
// name, chance_success, chance_source, max_episode_steps) and runs (task, backbone, seed, folder, control, memory,
// width, parameters, state_bytes, flops_per_step, mlp_width, mlp_parameters, mlp_flops_per_step, steps, command;
// learner where the experiment has some, tuned, an object, once tuning has chosen). Errors are those of replace_file().
void write_plan(const std::filesystem::path& directory, const Experiment& experiment, std::vector<PlannedRun> runs);

// The tries of one task, learner and backbone.
struct TunedPlace {
  std::string place;             // as PlannedRun::place() of the comparison's own runs
  std::vector<Settings> tries;   // try_number n is the n-th
  std::vector<PlannedRun> runs;  // try by try, seed by seed, each of the whole run's steps
};

// All tries of the experiment, which has some, in the folder of the tuning, in the order of plan_runs(). Throws
// UserError as plan_runs() does, for a setting that no run has, and where the memories would not have as many tries.
std::vector<TunedPlace> plan_tries(const Experiment& experiment, const std::filesystem::path& tuning);
// Writes their configs where they differ from what is there.
void write_try_configs(const std::vector<TunedPlace>& places);

// What follows "engram" on the command line of runs that begin or go on: one, or several seeds of one task and
// backbone.
std::vector<std::string> train_arguments(const std::vector<const PlannedRun*>& runs);

// For a shell, of one run.
std::string train_command(const PlannedRun& run);

// What follows "engram" of the evaluations of a trained run over the experiment's range, which it must have. What is
// there already is not made again.
std::vector<std::string> evaluate_arguments(const PlannedRun& run);

// What a run's agent is for, by its task and memory.
Control control_of(const Config& config);
// "none", "memoryless", "full_state", "full_state_recurrent".
const char* control_name(Control control);
// "what can be had without memory": what a control's success says of the others', as a part of a sentence; empty for
// kNone.
const char* control_meaning(Control control);

}  // namespace engram
