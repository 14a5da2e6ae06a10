#include "apps/compare/plan_text.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "agents/run/machine/hardware.h"
#include "agents/run/machine/memory_estimate.h"
#include "apps/cli/command_line.h"
#include "apps/cli/screen_table.h"
#include "apps/cli/status_display.h"
#include "apps/cli/threads.h"
#include "apps/compare/estimate.h"
#include "apps/compare/machine.h"
#include "base/machine/machine_memory.h"
#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/plan/budgets.h"
#include "experiments/plan/random_play.h"
#include "experiments/report/text.h"
#include "experiments/run/tune.h"

namespace engram {
namespace {

// Of the whole in percent, "75".
std::string share_text(std::int64_t part, std::int64_t whole) {
  return std::to_string(whole == 0 ? 0 : std::lround(100 * static_cast<double>(part) / static_cast<double>(whole)));
}

// Whole runs of the steps of each place that its tuning is worth.
double runs_of_tuning(const TuneOptions& tune, const TunedPlace& place) {
  return static_cast<double>(steps_of_tuning(tune, place)) / static_cast<double>(place.runs.front().config.run.steps);
}

}  // namespace

void print_tasks(const Experiment& experiment, const std::vector<const PlannedRun*>& runs) {
  ScreenTable table({{"task"},
                     {"of"},
                     {"steps of\nan episode", true},
                     {"steps\nof a run", true},
                     {"chance,\n%", true},
                     {"random\nplay, %", true}});
  for (const ExperimentEntry& task : experiment.tasks) {
    const auto found = std::ranges::find(runs, task.label, &PlannedRun::task);
    if (found == runs.end()) continue;
    const Config& config = (*found)->config;
    const TaskInfo info = config.task.info();
    table.add({task.label, info.name, std::to_string(info.max_episode_steps),
               count_text(static_cast<double>(config.run.steps)),
               info.chance_success ? percent(*info.chance_success) : "-",
               percent(play_at_random(config.task).success.estimate)});
  }
  std::cout << "\n" << table.text(0);
}

void print_budgets(const Experiment& experiment, const std::vector<const PlannedRun*>& runs) {
  ScreenTable table({{"backbone"},
                     {"\nwidth", true},
                     {"MLP\nwidth", true},
                     {"para-\nmeters", true},
                     {"% in\nMLPs", true},
                     {"bytes\nof state", true},
                     {"flops\na step", true},
                     {"% in\nMLPs", true}});
  for (const ExperimentEntry& backbone : experiment.backbones) {
    // The state and the work of some grow with the task's length.
    std::vector<std::pair<const PlannedRun*, std::string>> rows;
    for (const PlannedRun* run : runs) {
      if (run->backbone != backbone.label || run->seed != runs.front()->seed) continue;
      const auto same = std::ranges::find_if(rows, [&](const auto& row) { return row.first->budget == run->budget; });
      if (same == rows.end())
        rows.emplace_back(run, run->task);
      else if ((", " + same->second + ",").find(", " + run->task + ",") == std::string::npos)  // by another learner
        same->second += ", " + run->task;
    }
    for (const auto& [run, tasks] : rows) {
      const Budget& own = run->budget;
      const std::string memory = run->config.memory.name();
      table.add({run->backbone == memory ? memory : run->backbone + " (" + memory + ")", std::to_string(own.width),
                 own.mlp_width > 0 ? std::to_string(own.mlp_width) : "-", std::to_string(own.parameters),
                 share_text(own.mlp_parameters, own.parameters), std::to_string(own.state_bytes),
                 std::to_string(own.flops_per_step), share_text(own.mlp_flops_per_step, own.flops_per_step)});
      if (rows.size() > 1) table.add({"  in " + tasks});
    }
  }
  std::cout << "\n" << table.text(0);
}

void print_tuning(const TuneOptions& tune, const std::vector<TunedPlace>& places,
                  const std::vector<const PlannedRun*>& runs) {
  const auto most = std::ranges::max_element(places, {}, [](const TunedPlace& place) { return place.tries.size(); });
  std::string rungs;
  const std::vector<std::size_t> tries = tries_in_rungs(tune, most->tries.size());
  for (std::size_t rung = 0; rung < tries.size(); ++rung)
    rungs += (rungs.empty() ? "" : ", ") + std::to_string(tries[rung]) + formatted(" to %g%%", 100 * tune.rungs[rung]);
  double steps = 0;
  for (const TunedPlace& place : places) steps += static_cast<double>(steps_of_tuning(tune, place));
  std::int64_t of_runs = 0;
  for (const PlannedRun* run : runs) of_runs += run->config.run.steps;
  std::cout << "\n"
            << wrapped(
                   (runs.empty() ? "Tuning" : "Tuning first") + std::string(", on seeds ") + seeds_text(tune.seeds) +
                       ": " + counted(most->tries.size(), "try", "tries") + " of settings" +
                       (runs.empty() ? ""
                                     : " for each of " + counted(places.size(), "place") +
                                           " (a task and a backbone, with their learner)") +
                       (rungs.empty() ? "" : ", by successive halving: " + rungs + " of the steps") + ". It takes " +
                       count_text(steps) + " environment steps" +
                       (runs.empty() ? "" : ", the runs themselves " + count_text(static_cast<double>(of_runs))) + ".",
                   0, kScreenColumns)
            << "\n";
  for (const TunedPlace& place : places) {
    const auto run = std::ranges::find_if(runs, [&](const PlannedRun* any) { return any->place() == place.place; });
    if (run == runs.end() || !(*run)->tuned) continue;
    const Settings& chosen = *(*run)->tuned;
    std::cout << wrapped("  chosen for " + place.place + ": " +
                             (chosen.empty() ? "nothing to choose" : settings_text(chosen)),
                         4, kScreenColumns)
              << "\n";
  }
}

void print_estimate(const std::vector<const PlannedRun*>& runs, const Machine& machine, const TuneOptions* tune,
                    const std::vector<TunedPlace>& places) {
  constexpr std::size_t kMostPlace = 46;
  std::vector<std::vector<const PlannedRun*>> groups;
  std::map<std::string, std::size_t> group_of;
  for (const PlannedRun* run : runs) {
    const auto [found, is_new] = group_of.try_emplace(run->place(), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(run);
  }
  std::size_t columns = 5;
  for (const auto& group : groups) columns = std::max(columns, std::min(kMostPlace, group.front()->place().size()));
  const int width = static_cast<int>(columns);
  // Line by line: each is measured for a while.
  std::printf("\n%-*s  %4s  %12s  %8s\n", width, "to do", "runs", "each at most", "memory");
  const auto begin = std::chrono::steady_clock::now();
  double timed_seconds = 0, timed = 0, wanted = 0, longest = 0;
  for (const auto& group : groups) {
    const PlannedRun& run = *group.front();
    const torch::Device device = device_of(run, machine);
    const int threads = use_threads(training_threads(run.config, device, machine.threads).count);
    const double left =
        kTimingSeconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const std::optional<double> seconds = estimate_seconds(run, device, threads, left / 2);
    auto share = static_cast<double>(group.size());
    for (const TunedPlace& place : places)
      if (place.place == run.place() && !run.tuned) share += runs_of_tuning(*tune, place);
    wanted += share;
    if (seconds) {
      timed += share;
      timed_seconds += *seconds * share;
      longest = std::max(longest, *seconds);
    }
    std::printf("%-*s  %4zu  %12s  %8s\n", width, shortened(run.place(), kMostPlace).c_str(), group.size(),
                seconds ? duration_text(*seconds).c_str() : "not timed",
                memory_text(estimate_memory(run.config, device).total()).c_str());
    std::fflush(stdout);
  }
  const std::string with = " with " + machine_text(machine);
  std::string text;
  if (timed == 0) {
    text = "None was timed: " + formatted("%g", kTimingSeconds) + " seconds, which this takes at most, are not enough.";
  } else {
    const double total = timed_seconds * wanted / timed;
    text = "At most about " + duration_text(std::max(longest, total / machine.runs_at_once())) + with +
           (places.empty() ? "" : ", tuning included") + ", as measured here now" +
           (timed < wanted ? ", if those that " + formatted("%g", kTimingSeconds) +
                                 " seconds were not enough to time take as long as the others"
                           : "") +
           "; runs that reach evaluation.stop_at_success end earlier, runs beside each other are slower.";
  }
  if (runs.front()->range) text += " The evaluations at " + runs.front()->range->text() + " come on top.";
  std::cout << "\n" << wrapped(text, 0, kScreenColumns) << "\n";
}

}  // namespace engram
