// TrainObserver: told about a run's progress, in the thread of Trainer::run().
#pragma once

#include "agents/run/training/train_status.h"

namespace engram {

class AgentNetwork;
class StateArchive;

class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  // Every run.report_seconds.
  virtual void report(const TrainStatus&) {}
  // Every run.metrics_every_steps, when the updates owed are done, and at the end; never twice after as many steps. All
  // but the times is a function of config and seed.
  virtual void measured(const TrainStatus&) {}
  // Of a learner on policy: an iteration begins to learn. A function of config and seed.
  virtual void begins_iteration(const TrainStatus&, const IterationEpisodes&) {}
  // Again and again while an evaluation is played, for those who may ask the run to stop.
  virtual void evaluating() {}
  // After an evaluation. `best`: it is the best so far (better_or_equal()).
  virtual void evaluated(const TrainStatus&, const AgentNetwork&, bool /*best*/) {}
  // A checkpoint is due. Lists its own state after the trainer's and writes the archive.
  virtual void save(const TrainStatus&, StateArchive&) {}
  // At the end, once, after the last save.
  virtual void finished(const TrainStatus&, const AgentNetwork&) {}
};

}  // namespace engram
