#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <tuple>
#include <utility>
#include <vector>

#include "experiments/report/report.h"
#include "storage/run/run_directory.h"

namespace engram {
namespace {

std::size_t middle_of(const std::vector<const RunResult*>& runs) { return (runs.size() - 1) / 2; }

// The run in the middle of runs in order, or the nearest to it whose best weights are there.
const RunResult* to_film(const std::vector<const RunResult*>& runs) {
  const std::size_t middle = middle_of(runs);
  for (std::size_t distance = 0; distance < runs.size(); ++distance)
    for (const std::size_t i : {middle - distance, middle + distance})  // below 0: past the end
      if (i < runs.size() && has_best_weights(*runs[i])) return runs[i];
  return runs[middle];
}

}  // namespace

bool has_best_weights(const RunResult& run) {
  return RunDirectory::is_run(run.plan.folder) &&
         std::filesystem::exists(RunDirectory::open(run.plan.folder).weights_file(WhichWeights::kBest));
}

std::vector<const RunResult*> runs_to_film(const Results& results) {
  const Experiment& experiment = results.experiment;
  const auto finished = [&](std::size_t task, std::size_t backbone) {
    std::vector<const RunResult*> runs;
    for (std::size_t seed = 0; seed < experiment.seeds.size(); ++seed)
      if (const RunResult& run = results.run(task, backbone, seed); run.scores) runs.push_back(&run);
    std::stable_sort(runs.begin(), runs.end(), [](const RunResult* a, const RunResult* b) {
      return a->scores->final_success < b->scores->final_success;
    });
    return runs;
  };
  // The task with runs of most backbones that can be filmed, among those the one with the widest spread of their middle
  // runs.
  std::vector<const RunResult*> best;
  std::tuple<std::ptrdiff_t, std::size_t, double> most = {-1, 0, 0};
  for (std::size_t task = 0; task < experiment.tasks.size(); ++task) {
    std::vector<const RunResult*> chosen;
    double low = 1, high = 0;
    for (std::size_t backbone = 0; backbone < experiment.backbones.size(); ++backbone) {
      const std::vector<const RunResult*> runs = finished(task, backbone);
      if (runs.empty()) continue;
      chosen.push_back(to_film(runs));
      const Control control = chosen.back()->plan.control;
      if (control == Control::kFullState || control == Control::kFullStateRecurrent) continue;
      const double success = runs[middle_of(runs)]->scores->final_success;
      low = std::min(low, success);
      high = std::max(high, success);
    }
    const std::tuple these(std::ranges::count_if(chosen, [](const RunResult* run) { return has_best_weights(*run); }),
                           chosen.size(), high - low);
    if (these > most) {
      best = std::move(chosen);
      most = these;
    }
  }
  return best;
}

}  // namespace engram
