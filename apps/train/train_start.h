// How engram train begins: anew, from another agent, or from a checkpoint.
#pragma once

#include <string>

#include "agents/run/training/training.h"
#include "base/options.h"
#include "ranks/ranks.h"
#include "storage/settings.h"

namespace engram {

struct TrainOptions {
  std::string config;
  std::string run;
  std::string resume;
  std::string adapt;
  std::string seed;
  std::string seeds;
  std::string device;
  std::string on_nan;

  void list_options(OptionList& list) {
    list.add("run", run, "folder for everything that the run leaves behind, new or empty; the same as DIR");
    list.add("resume", resume,
             "folder of a run to go on with, from its newest checkpoint; auto: go on with DIR if it was begun, else "
             "begin it");
    list.add("adapt", adapt,
             "folder of a run whose agent this one adapts, with its config and its best weights, to another size of "
             "its task");
    list.add("config", config, "INI file with the settings that differ from the defaults");
    list.add("seed", seed, "short for --run.seed");
    list.add("seeds", seeds,
             "several seeds, as in 1-4,8: a run for each, all at once in one program, in the folders DIR/SEED");
    list.add("device", device, "short for --run.device");
    list.add("on-nan", on_nan, "short for --run.on_nan");
  }
};

// What to train, and what is to be said about it.
struct Start : TrainingStart {
  std::string preset_overrides;  // preset_overrides() of the settings
};

// By the options and the run's settings, those of its config file and the command line. Throws UserError for what
// contradicts itself, and for a run that cannot be gone on from. All ranks begin as the first one does: with its
// config, from its checkpoint, which they read by themselves; the run's directory is its alone.
Start find_start(Ranks& ranks, const TrainOptions& options, const SettingsLayers& settings);

}  // namespace engram
