// How long the runs of a comparison take, measured by training each pair of task and backbone for a moment.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>

#include "agents/run/training/trainer.h"
#include "experiments/plan/experiment.h"

namespace engram {

// How fast a run acts and how fast it learns, by its reports: either between two of its own moments, so that neither
// set-up nor a first call counts, and hundreds of updates after the first episodes need not end.
class PaceWatch : public TrainObserver {
 public:
  void report(const TrainStatus& status) override;
  bool enough() const { return acting_.known() && learning_.known(); }
  // Once that is enough.
  double seconds_per_step() const { return acting_.seconds(); }
  double seconds_per_update() const { return learning_.seconds(); }

 private:
  struct Pace {
    void see(std::int64_t count, double seconds);
    bool known() const { return first_count && last_count > *first_count; }
    double seconds() const { return (last_seconds - first_seconds) / static_cast<double>(last_count - *first_count); }

    std::optional<std::int64_t> first_count;
    std::int64_t last_count = 0;
    double first_seconds = 0, last_seconds = 0;
  };

  Pace acting_, learning_;
};

// Seconds that the whole run takes on `device` if nothing ends it early; of one process that has the machine's share of
// `threads`. Trains in this process for `within` seconds at most, but for a single step or update, and writes nothing;
// nothing where that is too short to see it act, learn and be evaluated.
std::optional<double> estimate_seconds(const PlannedRun& run, torch::Device device, int threads, double within);

}  // namespace engram
