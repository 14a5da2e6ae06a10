// A comparison whose runs are written by hand.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/plan/plan.h"
#include "experiments/results/results.h"
#include "storage/run/run_failure.h"
#include "tests/storage/temporary_folder.h"

namespace engram {

inline constexpr const char* kExperiment =
    "[compare]\nseeds = 1-2\ncontrols = none\n"
    "[task]\nname = tmaze\n[memory]\nname = gru\nwidth = 8\n[run]\nsteps = 400\n"
    "[evaluation]\nevery_steps = 100\nepisodes = 10\nfinal_episodes = 20\nstop_at_success = 1\n"
    "[tasks.long]\ntask.corridor_length = 20\n[tasks.short]\ntask.corridor_length = 5\n"
    "[backbones.gru]\nmemory.name = gru\n[backbones.lstm]\nmemory.name = lstm\n";

// `more`: other values of the row.
inline std::string evaluation_row(int steps, double success, const std::string& mean_return = "0.5",
                                  const std::string& more = "") {
  return "{\"kind\":\"evaluation\",\"environment_steps\":" + std::to_string(steps) +
         ",\"updates\":1,\"episodes\":10,\"return\":" + mean_return + ",\"success\":" + std::to_string(success) + more +
         "}\n";
}

// `more`: likewise.
inline std::string final_row(double success, const std::string& more = "", const std::string& mean_return = "null") {
  return "{\"kind\":\"final\",\"environment_steps\":100,\"updates\":1,\"episodes\":20,\"return\":" + mean_return +
         ",\"success\":" + std::to_string(success) + ",\"success_low\":0,\"success_high\":1" + more + "}\n";
}

inline std::string iteration_row(double mean_return) {
  return "{\"kind\":\"iteration\",\"environment_steps\":100,\"updates\":1,\"episodes\":10,\"return\":" +
         std::to_string(mean_return) + "}\n";
}

inline const RunFailure kDivergence{FailureKind::kDiverged, "update 3: the loss, \"x\", is not finite"};

// The folder of a comparison whose runs are written by hand.
struct Comparison {
  TemporaryFolder folder;
  std::vector<PlannedRun> plan;

  explicit Comparison(const std::string& ini = kExperiment) {
    write_text(folder / "x.ini", ini);
    const Experiment experiment = Experiment::from_file(folder / "x.ini");
    plan = plan_runs(experiment, folder.path());
    write_plan(folder.path(), experiment, plan);
  }
  const std::filesystem::path& path() const { return folder.path(); }
  PlannedRun& run(const std::string& name) {
    for (PlannedRun& run : plan)
      if (run.name() == name) return run;
    throw std::runtime_error(name);
  }
  void write(const std::string& name, const std::string& metrics) {
    std::filesystem::create_directories(run(name).folder / "weights");
    std::filesystem::create_directories(run(name).folder / "checkpoints");
    write_text(run(name).folder / "config.ini", run(name).config.to_ini());
    write_text(run(name).folder / "metrics.jsonl", metrics);
    write_text(run(name).folder / "timings.jsonl",
               "{\"wall_seconds\":5,\"steps_per_second\":80,\"updates_per_second\":20}\n");
    write_text(run(name).folder / "about.json",
               "{\"engram\":\"1.2.3\",\"commit\":\"abc\",\"device\":\"cpu\\n\\u001b\",\"cpu_cores\":4}");
  }
  // A run that has come as far as its metrics say, and failed.
  void fail(const std::string& name, const std::string& metrics, const RunFailure& failure = kDivergence) {
    write(name, metrics);
    write_failure(failure_file(run(name)), failure);
  }
};

inline const RunResult& result(const Results& results, const std::string& name) {
  for (const RunResult& run : results.runs)
    if (run.plan.name() == name) return run;
  throw std::runtime_error(name);
}

}  // namespace engram
