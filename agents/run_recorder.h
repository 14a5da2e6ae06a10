// RunRecorder: writes what a Trainer reports into a run directory: rows of metrics, and weights.
#pragma once

#include <map>
#include <string>

#include "agents/metrics.h"
#include "agents/run_directory.h"
#include "agents/trainer.h"

namespace engram {

class RunRecorder : public TrainObserver {
 public:
  // `config_text`: the resolved config, kept in the metadata of weights. Throws UserError if a file cannot be written.
  RunRecorder(const RunDirectory& run, std::string config_text);

  void report(const TrainStatus& status) override;
  void evaluated(const TrainStatus& status, const AgentNetwork& network, bool best) override;
  void finished(const TrainStatus& status, const AgentNetwork& network) override;

 private:
  void save(WhichWeights which, const TrainStatus& status, const AgentNetwork& network) const;

  RunDirectory run_;
  std::string config_text_;
  MetricsLog metrics_;
};

}  // namespace engram
