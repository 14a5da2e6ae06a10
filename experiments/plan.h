// The plan of an experiment on disk: what `engram compare` writes before it runs anything.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/experiment.h"

namespace engram {

// Writes experiment.ini, configs/ and plan.json where they differ from what is there; creates the folders. `runs`: all
// of the experiment. plan.json is an object: question, match, reference, evaluate (null without a range), tasks (label,
// name, chance_success, chance_source, max_episode_steps) and runs (task, backbone, seed, folder, control, memory,
// width, parameters, state_bytes, flops_per_step, steps, command). Errors are those of replace_file().
void write_plan(const std::filesystem::path& directory, const Experiment& experiment, std::vector<PlannedRun> runs);

// What follows "engram" on the command line of a run that begins or goes on.
std::vector<std::string> train_arguments(const std::filesystem::path& directory, const PlannedRun& run);

// The same of the evaluations of a trained run over the experiment's range, which it must have. What is there already
// is not made again.
std::vector<std::string> evaluate_arguments(const PlannedRun& run);

// "none", "memoryless", "full_state".
const char* control_name(Control control);

}  // namespace engram
