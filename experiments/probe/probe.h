// engram probe: tasks x backbones x seeds (x learning rates), each cell a ProbeLearner. A finished cell is one file in
// DIR/cells, named by what defines it, and not computed again; the table is made from whatever is finished.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/probe/options.h"
#include "experiments/statistics/score_table.h"

namespace engram {

struct ProbeCell {
  std::string task, backbone;  // entries as given
  std::uint64_t seed;
  double rate;
  std::string identity;  // all that the result depends on, as JSON
  std::string file;      // its name in DIR/cells
};

struct ProbeResult {
  double accuracy, validation_accuracy, chance;      // of the weights that are best in validation
  int best_step;                                     // training steps that they had
  double loss;                                       // where training ended
  std::optional<double> test_loss, validation_loss;  // the task's; not in files of earlier versions
  std::optional<int> diverged_at;                    // training step
  double seconds;
  ModelCost cost;  // of the backbone

  // (accuracy - chance) / (1 - chance)
  double normalised() const { return (accuracy - chance) / (1 - chance); }
};

// All cells, the seeds of a backbone side by side. Throws UserError, naming what is wrong, for entries that cannot be
// made; nothing is computed.
std::vector<ProbeCell> plan_probe(const ProbeOptions& options);

// The largest of all cells' training steps, for choose_threads().
double probe_work(const ProbeOptions& options);

// Where the cell's training is kept until its result is there.
std::filesystem::path kept_training_file(const ProbeCell& cell, const std::filesystem::path& folder);

// Computes the cell and writes its file. Goes on from its kept training, if there is one; throws UserError, naming the
// file, if that is damaged or of another cell.
ProbeResult run_probe_cell(const ProbeCell& cell, const ProbeOptions& options, torch::Device device,
                           const std::filesystem::path& folder);

// Nothing if the cell is not finished. Throws UserError for a file that is not this cell's.
std::optional<ProbeResult> read_probe_cell(const ProbeCell& cell, const std::filesystem::path& folder);

struct ProbeSummary {
  ScoreTable table;      // normalised accuracies
  ScoreTable losses;     // of the test
  std::string markdown;  // the tables, with 95% bootstrap intervals over seeds, and what is left out
  int missing = 0;       // cells
};

// Writes scores.json, scores.csv, losses.csv and probe.md into the folder.
ProbeSummary summarise_probe(const ProbeOptions& options, const std::filesystem::path& folder);

}  // namespace engram
