// A sweep: tuning alone, of one agent. Its folder is that of a tuning (tune_record.h), and has
//
//   sweep.ini   what is tried, as an experiment of one task and one backbone
//   best.ini    every setting of the best try, a config of `engram train`; once it is found
#pragma once

#include <filesystem>
#include <string>

#include "experiments/plan/experiment.h"
#include "experiments/plan/plan.h"

namespace engram {

std::filesystem::path sweep_file(const std::filesystem::path& folder);
std::filesystem::path best_config_file(const std::filesystem::path& folder);

// Of a run's settings, from the lowest layer to the highest, with keys "tune.KEY" of a section [tune] among them, whose
// seeds are 1-2 where it gives none. Throws UserError as Config::from_layers() and TuneOptions::from_settings() do, and
// for sections of a comparison.
Experiment sweep_of(const SettingsLayers& layers);
// That of a folder. Throws UserError if it has none.
Experiment read_sweep(const std::filesystem::path& folder);
// Throws UserError, naming the first line that differs, where the folder has another one.
void check_same_sweep(const std::filesystem::path& folder, const Experiment& sweep);
// Writes sweep.ini where there is none. Errors are those of replace_file().
void write_sweep(const std::filesystem::path& folder, const Experiment& sweep);

// Its one place with all tries.
TunedPlace plan_sweep(const Experiment& sweep, const std::filesystem::path& folder);

// Writes best.ini: the config of the runs with what was chosen.
void write_best_config(const std::filesystem::path& folder, const Experiment& sweep, const Settings& chosen);

}  // namespace engram
