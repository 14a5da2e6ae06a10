// RunRecorder: writes what a Trainer reports into a run directory: rows of metrics, weights, and checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "agents/run/training/trainer.h"
#include "storage/log/metrics.h"
#include "storage/run/run_directory.h"
#include "storage/tensors/checkpoint.h"

namespace engram {

class RunRecorder : public TrainObserver {
 public:
  // `config_text`: the resolved config, kept in the metadata of weights and checkpoints, of which `keep` stay.
  // `restored`: goes on from this checkpoint; the rows after it are cut off. Errors are those of AppendFile.
  RunRecorder(const RunDirectory& run, std::string config_text, int keep, StateArchive* restored = nullptr);

  // What was lost of a restored run's files and could be done without, a line each.
  const std::vector<std::string>& repairs() const { return metrics_.repairs(); }
  // Whether TensorBoard has no settings of this run yet; and these, before it begins or goes on.
  bool lacks_hyperparameters() const { return metrics_.began_events(); }
  void write_hyperparameters(std::span<const Hyperparameter> hyperparameters);
  // Of a finished run: an episode of its final evaluation, as a GIF of that size in pixels, for TensorBoard.
  void write_film(const TrainStatus& status, int width, int height, const std::string& gif);

  void measured(const TrainStatus& status) override;
  void begins_iteration(const TrainStatus& status, const IterationEpisodes& iteration) override;
  void evaluated(const TrainStatus& status, const AgentNetwork& network, bool best) override;
  void save(const TrainStatus& status, StateArchive& archive) override;
  void finished(const TrainStatus& status, const AgentNetwork& network) override;

  // Puts the best weights of a restored run into their file, where those of a time after its checkpoint may stand.
  void write_best(const EvaluationSummary& evaluation, const TensorMap& weights) const;

  // The file of the last save; empty before the first.
  const std::filesystem::path& last_checkpoint() const { return last_checkpoint_; }

 private:
  void write_weights(WhichWeights which, std::int64_t steps, std::int64_t updates, const TensorMap& weights) const;

  RunDirectory run_;
  std::string config_text_;
  int keep_;
  MetricsLog metrics_;
  std::filesystem::path last_checkpoint_;
};

}  // namespace engram
