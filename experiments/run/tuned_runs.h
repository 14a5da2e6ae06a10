// TunedRuns: a comparison with [tune] as a source of runs. Each place's runs begin as soon as it has chosen, while
// other places still try.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/run/run_all.h"
#include "experiments/run/tune.h"

namespace engram {

class TunedRuns final : public RunSource {
 public:
  // The comparison's own runs of places that have just chosen; they outlive run_all().
  using OfPlaces = std::function<std::vector<const PlannedRun*>(const std::vector<std::string>& places)>;

  // `tuned`: runs of places that had chosen before. `tuning` outlives the object.
  TunedRuns(Tuning& tuning, std::vector<const PlannedRun*> tuned, OfPlaces of_places)
      : tuning_(tuning), tuned_(std::move(tuned)), of_places_(std::move(of_places)) {}

  // Tries first: other runs wait for them.
  std::vector<const PlannedRun*> next() override {
    if (std::vector<const PlannedRun*> tries = tuning_.next(); !tries.empty()) return tries;
    if (!tuned_.empty()) return std::exchange(tuned_, {});
    const std::vector<std::string> chosen = tuning_.take_chosen();
    return chosen.empty() ? std::vector<const PlannedRun*>() : of_places_(chosen);
  }
  void over(const PlannedRun& run) override {
    if (run.try_number > 0) tuning_.over(run);
  }

 private:
  Tuning& tuning_;
  std::vector<const PlannedRun*> tuned_;
  OfPlaces of_places_;
};

}  // namespace engram
