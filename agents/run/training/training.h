// One run of training in its directory: where it starts, what it computes on, what it leaves behind. The command
// `engram train` and the Python package run this; it prints nothing, and signals and the threads of the process are its
// caller's.
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/play/rollout.h"
#include "agents/run/config/config.h"
#include "agents/run/machine/hardware.h"
#include "agents/run/training/run_recorder.h"
#include "agents/run/training/train_observer.h"
#include "agents/run/training/train_status.h"
#include "agents/run/training/trainer.h"
#include "base/run_fact.h"
#include "base/support.h"
#include "ranks/ranks.h"
#include "storage/run/run_directory.h"
#include "storage/settings.h"
#include "storage/tensors/checkpoint.h"

namespace engram {

// What to train, where, and from where on.
struct TrainingStart {
  Config config;
  std::optional<RunDirectory> run;       // none: a new one
  bool over = false;                     // the run was begun and has saved nothing
  std::optional<Checkpoint> checkpoint;  // none: from the beginning
  StartingWeights first_weights;         // none: a fresh network's, or the checkpoint's
};

// A run from its beginning. Throws UserError as Config::from_layers() does, and for adapters, which want an agent.
TrainingStart begin_training(const SettingsLayers& settings);

// The run of the folder, from its newest checkpoint on; `settings` lie above its own. A damaged checkpoint is passed
// over for the one before it, and `warn` is told so in one line. Of a run that has saved nothing: no checkpoint, and no
// config. Throws UserError where there is no run, it is in use, or it cannot go on with these settings.
TrainingStart resume_training(const std::filesystem::path& folder, const SettingsLayers& settings,
                              const std::function<void(const std::string&)>& warn);

// What a rank computes on.
struct TrainingPlace {
  torch::Device device;
  Threads threads;  // of LibTorch and of environments
};

// Makes the device current. `at_once`: runs of this program. Throws UserError where there is no such device, or they
// cannot fit into its memory.
TrainingPlace training_place(const Config& config, Ranks& ranks, int at_once = 1);

class TrainingRun {
 public:
  struct Where {
    std::string directory;                  // of a new run
    std::vector<std::string> command_line;  // what began it, for about.json
    TrainingPlace place;
    std::shared_ptr<Ranks> ranks = std::make_shared<Ranks>();  // of which this is the first
    EnvironmentSource source = {};                             // none: environments of the task
  };

  // Makes the agent and the run's directory, or restores and opens them; LibTorch has place.threads already. `start`
  // gives its run away and keeps the rest. `run`: set as soon as there is one, also where something throws after that:
  // UserError for a precision, weights, kernels or a state that the config cannot have here, and for a directory that
  // is not free.
  TrainingRun(TrainingStart& start, const Where& where, std::optional<RunDirectory>& run);

  // Trainer::run(); what it says goes into the directory, then to `observers`.
  TrainStatus run(const std::vector<TrainObserver*>& observers);

  Trainer& trainer() { return trainer_; }
  RunRecorder& recorder() { return *recorder_; }
  const std::vector<Road>& roads() const { return roads_; }
  const std::vector<RunFact>& facts() const { return facts_; }

 private:
  Trainer trainer_;
  std::vector<Road> roads_;
  std::vector<RunFact> facts_;
  std::optional<RunRecorder> recorder_;
};

}  // namespace engram
