// engram sweep: finds the best of some settings of one agent, by runs that are processes of their own.
#include "experiments/plan/sweep.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "agents/run/machine/hardware.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/screen_table.h"
#include "apps/cli/taken_signals.h"
#include "apps/cli/threads.h"
#include "apps/compare/estimate.h"
#include "apps/compare/machine.h"
#include "apps/compare/plan_text.h"
#include "apps/compare/tuning.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/report/text.h"
#include "experiments/run/tune.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

struct SweepOptions {
  std::string config;
  PoolOptions pool;
  bool dry_run = false;

  void list_options(OptionList& list) {
    list.add("config", config, "INI file of the agent's settings, with a section [tune]; needless to go on");
    pool.list_options(list);
    list.add("dry-run", dry_run, "show what is tried and what it costs; write nothing");
  }
};

CommandSyntax sweep_syntax() {
  std::vector<std::string> keys = all_config_keys();
  for (const std::string& key : all_config_keys()) keys.push_back("tune." + key);
  for (const char* own : {"seeds", "tries", "draw_seed", "rungs", "keep"}) keys.push_back(std::string("tune.") + own);
  return {.command = "sweep",
          .positional = {"DIR"},
          .setting_keys = std::move(keys),
          .short_forms = {{"device", "run.device"}},
          .values = {{"config", {"FILE"}}, {"device", kDeviceValues}}};
}

void print_sweep_help(const OptionList& own) {
  std::cout << help_head(
                   {"engram sweep DIR [--config FILE] --tune.section.key a,b [--section.key value ...]",
                    "engram sweep DIR"},
                   {"Tries settings of one agent, several runs at once, and writes the best as DIR/best.ini, a "
                    "config of engram train. All combinations of the values are tried, or --tune.tries N of them, "
                    "by successive halving: after each of --tune.rungs (0.25,0.5,1 of the steps) the best share "
                    "--tune.keep (0.5) goes on. It may be stopped and killed at any time: the same command goes "
                    "on where it was."})
            << "The command's own options\n";
  print_options(std::cout, own);
  std::cout << "\n"
            << wrapped(
                   "Config file: that of a run, and [tune] with seeds (1-2), tries, draw_seed, rungs, keep and "
                   "section.key = values to try. The same on the command line: --tune.seeds 1-4.",
                   0)
            << "\n\nExamples\n"
               "  engram sweep runs/rates --task.name tmaze --memory.name gru \\\n"
               "    --tune.learner.learning_rate 3e-4,1e-3,3e-3 --tune.memory.layers 1,2\n"
               "  engram train runs/best --config runs/rates/best.ini --seed 10\n";
}

Experiment find_sweep(const SweepOptions& options, const CommandLine& line, const fs::path& folder) {
  std::error_code error;
  const bool begun = fs::exists(sweep_file(folder), error);
  if (begun && options.config.empty() && line.settings.empty()) return read_sweep(folder);
  if (!begun && fs::exists(folder, error) && !fs::is_empty(folder, error))
    throw UserError("'" + folder.string() + "' exists, is not empty and holds no sweep: choose another DIR");
  SettingsLayers layers;
  if (!options.config.empty()) layers.push_back(read_settings(options.config));
  layers.push_back({.settings = line.settings, .name = kCommandLine});
  Experiment sweep = sweep_of(layers);
  if (begun) check_same_sweep(folder, sweep);
  return sweep;
}

void print_cost(const TuneOptions& tune, const TunedPlace& place, const Machine& machine) {
  print_tuning(tune, {place}, {});
  const PlannedRun& run = place.runs.front();
  const torch::Device device = device_of(run, machine);
  const int threads = use_threads(training_threads(run.config, device, machine.threads).count);
  const std::optional<double> seconds = estimate_seconds(run, device, threads, kTimingSeconds);
  const double runs = static_cast<double>(steps_of_tuning(tune, place)) / static_cast<double>(run.config.run.steps);
  std::cout << "\n"
            << wrapped(seconds ? "At most about " +
                                     duration_text(std::max(*seconds, *seconds * runs / machine.runs_at_once())) +
                                     " with " + machine_text(machine) + ", as the first try measures here now."
                               : "It was not timed: " + formatted("%g", kTimingSeconds) +
                                     " seconds, which this takes at most, are not enough.",
                       0, kScreenColumns)
            << "\n";
}

// The last rung that a try took part in, the best first.
void print_tries(const TuneRecord& record) {
  ScreenTable table({{"success,\n%"}, {"mean\nreturn", true}, {"steps\nof a run", true}, {"settings"}});
  for (std::size_t i = record.rungs.size(); i-- > 0;) {
    const TuneRung& rung = record.rungs[i];
    for (std::size_t place = record.first_ended(i); place < rung.tries.size(); ++place) {
      const TriedSettings& tried = rung.tries[place];
      double mean_return = 0;
      for (const TriedSettings::Run& run : tried.runs)
        mean_return += run.mean_return.value_or(0) / static_cast<double>(tried.runs.size());
      table.add({tried.runs.empty() ? "-" : percent(mean_success(tried)),
                 tried.runs.empty() ? "-" : formatted("%.3g", mean_return), std::to_string(rung.steps),
                 settings_text(tried.settings) + (tried.failure.empty() ? "" : ": " + tried.failure)});
    }
  }
  if (!table.empty()) std::cout << "\n" << table.text(0) << "\n";
}

}  // namespace

void describe_sweep(const CommandVisitor& visit) { describe_options<SweepOptions>("sweep", sweep_syntax(), visit); }

int run_sweep(const std::vector<std::string>& arguments) {
  SweepOptions options;
  const auto line = command_line_of(arguments, options, sweep_syntax(), print_sweep_help);
  if (!line) return 0;
  std::optional<TakenSignals> signals;
  if (!options.dry_run) signals.emplace({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD});
  const fs::path folder = line->positional.front();
  const Experiment sweep = find_sweep(options, *line, folder);
  std::vector<TunedPlace> places = {plan_sweep(sweep, folder)};
  std::vector<const PlannedRun*> runs;
  for (const PlannedRun& run : places.front().runs) runs.push_back(&run);
  const Machine machine = find_machine(options.pool, runs);
  check_runs(runs, machine);
  std::cout << sweep.backbones.front().label << " on " << sweep.tasks.front().label << ", "
            << counted(places.front().tries.size(), "try", "tries") << " x "
            << counted(sweep.tune->seeds.size(), "seed") << ", in " << folder.string() << ", " << machine_text(machine)
            << std::endl;
  if (options.dry_run) {
    print_cost(*sweep.tune, places.front(), machine);
    return 0;
  }
  write_sweep(folder, sweep);
  const TuningEnd end = run_tuning(folder, *sweep.tune, places, machine, *signals);
  if (end.signal != 0) {
    std::cout << "Stopped by " << signal_name(end.signal) << ". To go on:\n  "
              << shell_command({"engram", "sweep", folder.string()}) << std::endl;
    return kSignalStatus + end.signal;
  }
  if (!end.failure.empty()) throw std::runtime_error(end.failure);
  const TuneRecord record = read_tune_record(record_file(folder, places.front().place));
  print_tries(record);
  write_best_config(folder, sweep, *record.chosen);
  std::cout << "The best is " << best_config_file(folder).string()
            << ". What next, with seeds that it was not chosen by:\n  "
            << shell_command({"engram", "train", "NEW_FOLDER", "--config", best_config_file(folder).string(), "--seed",
                              std::to_string(sweep.tune->seeds.back() + 1)})
            << std::endl;
  return 0;
}

}  // namespace engram
