// Options of engram probe, and its presets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "experiments/plan/experiment.h"
#include "experiments/probe/learner.h"
#include "experiments/statistics/score_table.h"

namespace engram {

// Defaults of all other options (presets.cpp has each with its source).
enum class ProbePreset {
  kFull,         // sizes as published, for a GPU
  kSmall,        // minutes on a CPU
  kPublished,    // modular arithmetic as the published runs were made (Irie et al. 2025, tables 3 and 6)
  kMqar,         // multi-query associative recall over widths (Yang et al. 2024, figure 2)
  kMad,          // mechanistic architecture design (Yang et al. 2024, table 1)
  kRegBench,     // in-context language learning over numbers of languages (Yang et al. 2024, figure 3)
  kCapacity,     // retrieval over numbers of keys (Schlag et al. 2021, figure 2)
  kUpdateRules,  // the same with keys that are rewritten (Schlag et al. 2021, figure 5)
  kText,         // a text by every memory, as large as half an hour of two GPUs allows
};

inline constexpr int kMostProbeSteps = 100'000'000;

struct ProbeOptions {
  std::string tasks = "parity,modular,recall,rewritten,copy,selective_copy,retrieval";
  std::string backbones =
      "transformer,deltanet,deltanet:beta_factor=1,hqlt,hqlt:beta_factor=1,hqlt_delayed_stream,hqlt_delayed_chunk";
  std::string seeds = "0-2";
  std::string rates = "0.005,0.001";  // learning rates; of several the best in validation counts
  std::string layers = "published";   // or a number
  int width = 128;
  Match match = Match::kNone;
  int heads = 4;
  int window = 16;
  int test_sequences = 256;
  int epochs = 0;  // passes over a task's training set that stand for training.steps; 0: those steps
  ProbeTraining training;

  explicit ProbeOptions(ProbePreset preset = ProbePreset::kFull);
  void list_options(OptionList& list);
};

// An option that chooses one.
void list_preset(OptionList& list, ProbePreset& preset);

// A list of tasks as in ProbeOptions::tasks. Each gets the options that the preset gives it and the list leaves open,
// so that "parity" of kSmall is parity in small. Throws UserError for a malformed entry.
std::string with_preset_sizes(const std::string& tasks, ProbePreset preset);

// The list whose entries of the task text read `file`. Throws UserError if there is none, or one that names its own.
std::string with_text(const std::string& tasks, const std::string& file);

// What the texts of the options name. All throw UserError, naming the option, for one that is malformed.
std::vector<std::string> probe_entries(const std::string& list, const std::string& option);  // of tasks, backbones
std::vector<double> probe_rates(const ProbeOptions& options);
std::optional<int> probe_layers(const ProbeOptions& options);  // nothing: each task's own
// Of all tasks, backbones and seeds, without scores.
ScoreTable probe_table(const ProbeOptions& options, const std::string& metric = "normalised accuracy",
                       const std::string& units = "fraction of the way from chance to perfect");

}  // namespace engram
