// Config: everything that defines a run, from defaults, presets, config file and command line, in rising precedence.
// Sections: run, task, network, memory, adapters, learner, replay, evaluation, checkpoint. The defaults are those of
// the chosen task, memory and learner, which may want others of other sections (LearnerConfig::defaults_elsewhere()).
// INI files hold only what differs from the defaults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "agents/learn/learner_config.h"
#include "agents/run/config/options.h"
#include "base/options.h"
#include "envs/registry.h"
#include "memory/core/backbone_config.h"
#include "storage/settings.h"

namespace engram {

// kAuto: bfloat16 on a GPU, float32 on the CPU.
enum class Precision { kAuto, kFloat32, kBfloat16 };

// Whether parts of an agent on a GPU are computed by the project's kernels: where there are some for them, or in all
// parts or not at all, or nowhere. What no kernel computes, LibTorch does, in the same precision.
enum class Kernels { kAuto, kRequire, kOff };

// How a processor waits for a GPU: asking all the time, which is sooner; asleep, which leaves the processor to others;
// or so where more runs begin together than there are processors.
enum class GpuWait { kAuto, kSpin, kSleep };

// What becomes of a run whose loss or gradients are not finite. Such an update never changes the weights.
enum class OnNan { kStop, kSkip };

struct RunOptions {
  std::uint64_t seed = 1;
  std::int64_t steps = 2'000'000;          // environment steps of the whole run
  int random_episodes = 10;                // collected with random actions before the first update
  double updates_per_step = 0.25;          // gradient updates per environment step
  int num_envs = 1;                        // environments that collect in lockstep
  int threads = 0;                         // of the CPU; 0: by the size of the work (hardware.h)
  std::string device = "auto";             // auto | cpu | cuda | cuda:N
  Precision precision = Precision::kAuto;  // of matrix products on a GPU
  Kernels kernels = Kernels::kAuto;        // on a GPU
  GpuWait gpu_wait = GpuWait::kAuto;
  bool memoryless_collection = false;  // every collected step is acted with an empty memory
  OnNan on_nan = OnNan::kStop;
  double report_seconds = 1;                // between status reports
  std::int64_t metrics_every_steps = 1000;  // environment steps between rows of metrics
  double max_seconds = 0;                   // the run stops after this time; 0: no limit

  void list_options(OptionList& list);
};

struct EvaluationOptions {
  std::int64_t every_steps = 7800;  // environment steps between evaluations
  int episodes = 20;                // greedy episodes of one evaluation, and as many with sampled actions
  double stop_at_success = 0;       // the run stops once greedy success reaches this; 0: never
  int final_episodes = 100;         // the same of the best weights when the run is over; 0: none
  bool dropout = false;             // whether the agent drops channels as it does in collecting

  void list_options(OptionList& list);
};

// When a run saves all that it needs to go on.
struct CheckpointOptions {
  std::int64_t every_steps = 0;  // environment steps; 0: by time alone
  double every_minutes = 10;     // 0: by steps alone
  int keep = 2;                  // how many files stay, the newest

  void list_options(OptionList& list);
};

struct Config {
  RunOptions run;
  TaskConfig task{"visual_match"};
  NetworkOptions network;
  BackboneConfig memory{"hqlt"};
  AdapterOptions adapters;
  LearnerConfig learner{"sac"};
  ReplayOptions replay;
  EvaluationOptions evaluation;
  CheckpointOptions checkpoint;

  // A higher layer wins, and in a layer the later setting. What chooses ("task.preset", "task.name", "memory.name",
  // "learner.preset", "learner.name") is looked at first, whatever its place; a preset chooses its task or learner, and
  // its values, which a learner's may have in any section, lie below the other settings of its layer and above all
  // layers below that. What is left out means what it did in the format of the lowest layer that says one
  // ("format"). Throws UserError for an unknown key or section, a value out of bounds, or values that contradict each
  // other, with the line of a file's setting.
  static Config from_layers(const SettingsLayers& layers);
  // Of one layer.
  static Config from_settings(const Settings& settings) { return from_layers({{.settings = settings}}); }

  // All options, bound to this object; without those that choose (task.name, memory.name and such).
  OptionList options();
  // Of the same, as they are now.
  std::vector<OptionValue> values() const { return Config(*this).options().values(); }
  // Gradient updates for each environment step: run.updates_per_step, or those of a learner on policy.
  double updates_per_step() const;
  // The whole config as an INI file that read_settings() takes back to an equal config.
  std::string to_ini() const;
};

// Whether a run may go on with another value of this option: its state does not depend on it.
bool may_change_on_resume(const std::string& key);
// Throws UserError, naming the key and both values, if the configs differ in any other option. `where` names the run.
void check_same_run(const Config& saved, const Config& wanted, const std::string& where);
// The same for the task, the backbone and the learner that the layers choose alone, before their options are looked at.
void check_same_choices(const Config& saved, const SettingsLayers& wanted, const std::string& where);

// Every key that some config takes, in all sections and for all tasks, backbones and learners.
std::vector<std::string> all_config_keys();
// Those of the section task.
std::vector<std::string> task_config_keys();

// Throws SettingError for a section that no config has.
void check_section(const std::string& section);

// What the presets of layers set otherwise than a layer below them, in a line, as in "task.preset 'visual_match_60' of
// the command line overrides config file 'c.ini': task.distractor_steps = 60, not 10"; empty where there is nothing.
// The layers make a config, or are the highest of some that do.
std::string preset_overrides(const SettingsLayers& layers);

// Throws UserError where the learner does not learn actions such as the task's.
void check_learner_of_actions(const Config& config);

// The config that the file gives. Throws UserError as read_settings() and Config::from_layers() do.
Config read_config(const std::filesystem::path& file);

}  // namespace engram
