// engram compare: plans the runs of an experiment, runs them as processes of their own, and goes on where it was.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "agents/run/trained/trained_agent.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/gpu_sharing.h"
#include "apps/cli/screen_table.h"
#include "apps/cli/status_display.h"
#include "apps/cli/taken_signals.h"
#include "apps/compare/live_page.h"
#include "apps/compare/machine.h"
#include "apps/compare/plan_text.h"
#include "apps/compare/process_launcher.h"
#include "apps/compare/progress.h"
#include "apps/compare/report.h"
#include "apps/compare/shard.h"
#include "apps/compare/tuning.h"
#include "base/error.h"
#include "base/text/suggest.h"
#include "base/text/words.h"
#include "experiments/plan/plan.h"
#include "experiments/results/csv.h"
#include "experiments/results/earlier_runs.h"
#include "experiments/run/run_all.h"
#include "experiments/run/tune.h"
#include "experiments/run/tuned_runs.h"
#include "nn/device/device.h"
#include "nn/device/gpu_share.h"
#include "storage/files.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

struct CompareOptions {
  std::string config;
  std::string run;
  std::string tasks;
  std::string learners;
  std::string backbones;
  std::string seeds;
  std::string match;
  std::string reference;
  std::string earlier;
  PoolOptions pool;
  std::string shard = "1/1";
  bool tune_only = false;
  bool dry_run = false;

  void list_options(OptionList& list) {
    list.add("run", run, "folder of the comparison; new, empty, or one to go on with");
    list.add("config", config, "INI file of the experiment; needless to go on");
    list.add("tasks", tasks, "labels of the tasks to run, as in a,b; all where it is not given");
    list.add("learners", learners, "labels of the learners to run, of an experiment that has some; all likewise");
    list.add("backbones", backbones, "labels of the backbones to run, controls included; all where it is not given");
    list.add("seeds", seeds, "as in 0-4,8; those of the experiment where it is not given");
    list.add("match", match, "parameters | state | flops | none: what widths are chosen to agree in");
    list.add("reference", reference, "label of the backbone whose width stays");
    list.add(
        "earlier", earlier,
        ".csv of an earlier report of this comparison: its runs that finished or diverged are not made again, nor is "
        "chosen again what its tuning chose, and both stand in the reports to come");
    pool.list_options(list);
    list.add("shard", shard, "I/N: the I-th of N parts of the runs, for N machines or the array of a cluster");
    list.add("tune-only", tune_only, "choose what [tune] tries, and begin no run of the comparison");
    list.add("dry-run", dry_run,
             "show the plan, the budgets, what tuning costs and how long it takes at most; write nothing");
  }
};

CommandSyntax compare_syntax() {
  return {.command = "compare",
          .setting_keys = all_config_keys(),
          .short_forms = {{"device", "run.device"}},
          .values = {{"run", {"DIR"}},
                     {"config", {"FILE"}},
                     {"earlier", {"FILE"}},
                     {"match", {"parameters", "state", "flops", "none"}},
                     {"device", kDeviceValues}}};
}

void print_compare_help(const OptionList& own) {
  std::cout << help_head({"engram compare --config FILE --run DIR [--tasks a,b] [--learners a,b] [--backbones a,b] "
                          "[--seeds 0-4] [--section.key value ...]",
                          "engram compare --run DIR"},
                         {"Trains tasks x backbones x seeds, each run in a run directory and, but for --seeds-per-job, "
                          "a process of its own, several at once. It may be stopped and killed at any time: the same "
                          "command goes on where it was, and tries again what has failed, but for runs that diverged: "
                          "these are results. A later call may add tasks, learners, backbones and seeds. Settings on "
                          "the command line hold for every run."})
            << "The command's own options\n";
  print_options(std::cout, own);
  std::cout
      << "\n"
      << wrapped(
             "Config file: [compare] with question, seeds, match, match_mlp, reference, controls and evaluate (such "
             "as task.corridor_length: 10,20,50: every trained agent is evaluated at these values, too); the "
             "sections of a run's config for what all runs share; [tasks.LABEL], [learners.LABEL] and "
             "[backbones.LABEL] with section.key = value for what is theirs; [tune] with seeds, tries, draw_seed, "
             "rungs, "
             "keep and section.key = values to choose from before the runs. configs/compare/ has examples.",
             0)
      << "\n\n"
      << wrapped(
             "Signals: SIGINT, SIGTERM, SIGHUP and a closed pipe behind the standard output let all runs save and "
             "leave with status 130, 143, 129 or 141, a second SIGINT or SIGTERM at once; SIGUSR1 lets them save and "
             "go on. Exit status 1: a run has failed otherwise than by diverging; the others are done.",
             0)
      << "\n\nExamples\n"
         "  engram compare --config configs/compare/tmaze_length.ini --run runs/tmaze \\\n"
         "    --dry-run\n"
         "  engram compare --config configs/compare/tmaze_length.ini --run runs/tmaze \\\n"
         "    --seeds 0-9 --jobs 16 --device cpu\n";
}

// The experiment that this call asks for, and that of the folder with it.
struct Wanted {
  Experiment now, all;
};

// Or another shard is beginning it at this moment.
bool is_empty_or_new(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return true;
  const std::string begun = experiment_file(folder).filename().string();
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error))
    if (!entry->path().filename().string().starts_with(begun)) return fs::exists(experiment_file(folder), error);
  return !error;
}

Wanted find_experiment(const CompareOptions& options, const Settings& settings) {
  if (options.run.empty()) throw UserError("--run DIR is missing: the folder of the comparison");
  const fs::path folder = options.run;
  std::error_code error;
  const bool begun = fs::exists(experiment_file(folder), error);
  if (!begun && options.config.empty())
    throw UserError("--config FILE is missing: '" + folder.string() + "' holds no comparison to go on with");
  if (!begun && !is_empty_or_new(folder))
    throw UserError("'" + folder.string() + "' exists, is not empty and holds no comparison: choose another --run");
  Settings more;
  if (!options.seeds.empty()) more.emplace_back("compare.seeds", options.seeds);
  if (!options.match.empty()) more.emplace_back("compare.match", options.match);
  if (!options.reference.empty()) more.emplace_back("compare.reference", options.reference);
  Experiment now =
      options.config.empty() ? Experiment::read(folder, more) : Experiment::from_file(options.config, more);
  if (!options.tasks.empty()) now.select_tasks(parse_labels(options.tasks));
  if (!options.learners.empty()) now.select_learners(parse_labels(options.learners));
  if (!options.backbones.empty()) now.select_backbones(parse_labels(options.backbones));
  now.override_settings(settings);
  Wanted wanted{now, now};
  if (begun) wanted.all.add_saved(Experiment::read(folder), "'" + options.run + "'");
  return wanted;
}

struct Earlier {
  EarlierRuns runs;
  std::optional<std::string> to_keep;  // text of --earlier, for the folder
};

// Those of --earlier, or of the folder. Throws UserError for a file beside which the folder has another one.
Earlier find_earlier(const CompareOptions& options) {
  if (options.earlier.empty()) return {EarlierRuns::of(options.run), {}};
  const std::string text = read_table_file(options.earlier);
  const fs::path kept = EarlierRuns::file_of(options.run);
  std::error_code error;
  if (fs::exists(fs::symlink_status(kept, error)) && read_table_file(kept) != text)
    throw UserError("'" + kept.string() + "' is there and differs from --earlier '" + options.earlier +
                    "': put the rows of both into one file, and remove the former");
  return {EarlierRuns::parse(text, options.earlier), text};
}

// The runs of this call: seed by seed, so that what is finished first can be compared. Shards are drawn, so that each
// has of everything; the draw depends on nothing but the number of runs.
std::vector<const PlannedRun*> runs_of_call(const std::vector<PlannedRun>& runs, const Experiment& now, Shard shard) {
  std::vector<const PlannedRun*> selected;
  for (const PlannedRun& run : runs)
    if (find_entry(now.tasks, run.task) != nullptr && find_entry(now.backbones, run.backbone) != nullptr &&
        find_entry(now.learners, run.learner) != nullptr && std::ranges::binary_search(now.seeds, run.seed))
      selected.push_back(&run);
  std::vector<std::size_t> order(selected.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  Rng random(0, Purpose::kRun, 0, 0);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  std::vector<const PlannedRun*> mine;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (i % shard.count == shard.index) mine.push_back(selected[order[i]]);
  std::ranges::sort(mine, [](const PlannedRun* a, const PlannedRun* b) {
    return std::pair(a->seed, a) < std::pair(b->seed, b);  // in one vector: by task and backbone
  });
  return mine;
}

// Those that some of these runs are of.
std::vector<TunedPlace> places_of(const std::vector<const PlannedRun*>& runs, std::vector<TunedPlace> places) {
  std::set<std::string> wanted;
  for (const PlannedRun* run : runs) wanted.insert(run->place());
  std::erase_if(places, [&](const TunedPlace& place) { return !wanted.contains(place.place); });
  return places;
}

// What a call is to do, before anything is written.
struct Call {
  fs::path directory, tuning;
  Shard shard;
  Wanted wanted;
  Earlier earlier;
  TuneRecords chosen_earlier = {};            // by places that an earlier report has
  std::vector<PlannedRun> all = {};           // runs of the experiment
  std::vector<const PlannedRun*> runs = {};   // of this call
  std::vector<const PlannedRun*> to_do = {};  // of them those that have not ended
  std::vector<TunedPlace> tuned_places = {};  // of them, with [tune]
  std::vector<TunedPlace> places = {};        // of those the ones that have still to choose
  Machine machine = {};
};

Call plan_call(const CompareOptions& options, const CommandLine& line) {
  Call call{.directory = options.run,
            .tuning = tuning_folder(options.run),
            .shard = parse_shard(options.shard),
            .wanted = find_experiment(options, line.settings),
            .earlier = find_earlier(options)};
  const Experiment& experiment = call.wanted.all;
  std::vector<TunedPlace> all_places;
  // Of the whole experiment: whether all memories have as many tries does not depend on what is selected.
  if (experiment.tune) all_places = plan_tries(experiment, call.tuning);
  // What an earlier report has chosen is not tried again.
  call.chosen_earlier = call.earlier.runs.tuning(all_places);
  call.all = plan_runs(experiment, call.directory, call.chosen_earlier);
  call.runs = runs_of_call(call.all, call.wanted.now, call.shard);
  if (call.runs.empty()) throw UserError("--shard " + options.shard + " has no run: there are fewer runs than shards");
  if (options.tune_only && !experiment.tune) throw UserError("--tune-only is for an experiment with a section [tune]");
  call.tuned_places = places_of(call.runs, all_places);
  std::vector<const PlannedRun*> untuned = call.runs;
  std::erase_if(untuned, [](const PlannedRun* run) { return run->tuned.has_value(); });
  call.places = places_of(untuned, std::move(all_places));
  if (!call.places.empty() && call.shard.count > 1)
    throw UserError(
        "--shard " + options.shard + " and [tune] of which " + counted(call.places.size(), "place") +
        (call.places.size() == 1 ? " has" : " have") +
        " still to choose contradict each other: tune with --tune-only and without --shard first, on as many "
        "machines as share the folder");
  for (const PlannedRun* run : call.runs)
    if (!read_run_state(*run, call.earlier.runs).ended()) call.to_do.push_back(run);
  std::vector<const PlannedRun*> with_tries = call.to_do;
  for (const TunedPlace& place : call.places)
    for (const PlannedRun& run : place.runs) with_tries.push_back(&run);
  call.machine = find_machine(options.pool, with_tries);
  check_runs(with_tries, call.machine);
  return call;
}

void print_call(const Call& call, const std::string& shard) {
  if (!call.wanted.all.question.empty())
    std::cout << wrapped(one_line(call.wanted.all.question), 0, kScreenColumns) << "\n";
  std::cout << size_text(call.wanted.now)
            << (call.shard.count > 1 ? ", shard " + shard + ": " + counted(call.runs.size(), "run") : "") << ", in "
            << call.directory.string() << "\n"
            << call.to_do.size() << " of " << call.runs.size() << " to do, " << machine_text(call.machine) << std::endl;
}

void print_plan(const Call& call) {
  const std::optional<TuneOptions>& tune = call.wanted.all.tune;
  print_tasks(call.wanted.now, call.runs);
  print_budgets(call.wanted.now, call.runs);
  if (tune) print_tuning(*tune, call.tuned_places, call.runs);
  std::cout << std::flush;
  if (!call.to_do.empty()) print_estimate(call.to_do, call.machine, tune ? &*tune : nullptr, call.places);
}

void write_call(const Call& call) {
  write_plan(call.directory, call.wanted.all, call.all);
  if (call.earlier.to_keep)
    replace_file(EarlierRuns::file_of(call.directory), [&](std::ostream& out) { out << *call.earlier.to_keep; });
  for (const auto& [place, record] : call.chosen_earlier)
    if (const fs::path file = record_file(call.tuning, place); !read_tune_record(file).chosen)
      write_tune_record(file, record);
}

int say_stopped(int signal, const fs::path& directory) {
  std::cout << "Stopped by " << signal_name(signal) << ". To go on:\n  "
            << shell_command({"engram", "compare", "--run", directory.string()}) << std::endl;
  return kSignalStatus + signal;
}

int tune_alone(Call& call, TakenSignals& signals) {
  const TuningEnd end = run_tuning(call.tuning, *call.wanted.all.tune, call.places, call.machine, signals);
  if (end.signal != 0) return say_stopped(end.signal, call.directory);
  if (!end.failure.empty()) throw std::runtime_error(end.failure);
  std::cout << "All settings are chosen. To go on:\n  "
            << shell_command({"engram", "compare", "--run", call.directory.string()}) << std::endl;
  return 0;
}

// "2 of 12 runs have diverged, which is their result: long/gru/0, long/gru/1."
std::string diverged_text(const std::vector<const PlannedRun*>& diverged, const std::string& runs) {
  std::vector<std::string> names;
  for (const PlannedRun* run : diverged) names.push_back(run->name());
  return std::to_string(names.size()) + " of " + runs +
         (names.size() == 1 ? " has diverged, which is its result: " : " have diverged, which is their result: ") +
         listed(names) + ".";
}

// `not_tuned`: why some places have not chosen; empty: all have.
int say_end(const Call& call, const RunsOutcome& outcome, const std::string& not_tuned) {
  std::vector<EndedRun> failed = outcome.failed;
  std::erase_if(failed, [](const EndedRun& ended) { return ended.run->try_number > 0; });
  const std::string runs = counted(call.runs.size(), "run");
  const std::size_t diverged = outcome.diverged.size();
  if (diverged > 0) std::cout << diverged_text(outcome.diverged, runs) << std::endl;
  if (failed.empty() && !not_tuned.empty()) throw std::runtime_error(not_tuned);
  if (failed.empty()) {
    const std::size_t finished = call.runs.size() - diverged;
    std::cout << (diverged > 0
                      ? std::to_string(finished) + " of " + runs + (finished == 1 ? " is" : " are") + " finished"
                  : finished == 1 ? "The run is finished"
                                  : "All " + runs + " are finished")
              << ". What next:\n  " << shell_command({"engram", "compare", "report", call.directory.string()})
              << std::endl;
    return 0;
  }
  const EndedRun& first = failed.front();
  throw std::runtime_error(std::to_string(failed.size()) + " of " + runs + " failed: " + first.run->name() + " (" +
                           failure_text(first.failure) + ")" +
                           (failed.size() > 1 ? " and others, see " + (call.directory / "failures").string() : "") +
                           "; the same command tries again" + (not_tuned.empty() ? "" : "; and " + not_tuned));
}

int run_call(Call& call, TakenSignals& signals) {
  const Experiment& experiment = call.wanted.all;
  if (!call.places.empty())
    std::cout << tuning_text(call.places, *experiment.tune) << " A place's runs begin when it has chosen." << std::endl;
  write_try_configs(call.places);
  Tuning tuning(call.tuning, experiment.tune.value_or(TuneOptions{}), call.places);
  ProcessLauncher launcher(call.machine, signals);
  LivePage page(call.directory, experiment, call.all, call.earlier.runs);
  std::deque<PlannedRun> of_chosen;
  const RunsOutcome outcome = [&] {
    CompareProgress progress(std::cout, terminal_width(STDOUT_FILENO), call.runs, call.machine.runs_at_once(), &page);
    // With what was chosen, which the seeds of the comparison have had no part in.
    const auto runs_of = [&](const std::vector<std::string>& chosen) {
      const std::vector<PlannedRun> planned = plan_runs(experiment, call.directory);
      write_plan(call.directory, experiment, planned);
      page.plan(planned);
      for (const std::string& place : chosen) progress.say(chosen_text(call.tuning, place));
      std::vector<const PlannedRun*> own;
      for (const PlannedRun* run : runs_of_call(planned, call.wanted.now, call.shard))
        if (std::ranges::find(chosen, run->place()) != chosen.end()) own.push_back(&of_chosen.emplace_back(*run));
      return own;
    };
    std::vector<const PlannedRun*> tuned = call.runs;
    if (experiment.tune) std::erase_if(tuned, [](const PlannedRun* run) { return !run->tuned; });
    TunedRuns source(tuning, std::move(tuned), runs_of);
    return run_all(source, call.earlier.runs, call.machine, launcher, progress);
  }();  // its live line is gone
  try {
    if (!call.to_do.empty()) page.finish();
  } catch (const std::exception& error) {  // the runs themselves are there
    std::cerr << "engram: the page is not written: " << error.what() << std::endl;
  }
  if (outcome.stopped) return say_stopped(launcher.stopped_by(), call.directory);
  return say_end(call, outcome, why_not_tuned(call.tuning, tuning.outcome(outcome.failed), call.places));
}

}  // namespace

void describe_compare(const CommandVisitor& visit) {
  describe_options<CompareOptions>("compare", compare_syntax(), visit);
  describe_compare_report(visit);
}

int run_compare(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments.front() == "report")
    return run_compare_report({arguments.begin() + 1, arguments.end()});
  CompareOptions options;
  const auto line = command_line_of(arguments, options, compare_syntax(), print_compare_help);
  if (!line) return 0;
  std::optional<TakenSignals> signals;
  if (!options.dry_run) signals.emplace({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD});
  Call call = plan_call(options, *line);
  print_call(call, options.shard);
  if (options.dry_run) {
    print_plan(call);
    return 0;
  }
  const Machine& machine = call.machine;
  if (machine.gpus > 0)
    if (const std::string advice = sharing_advice((machine.runs_at_once() + machine.gpus - 1) / machine.gpus,
                                                  has_multi_process_service(), gpu_share());
        !advice.empty())
      std::cout << advice << std::endl;
  write_call(call);
  return options.tune_only ? tune_alone(call, *signals) : run_call(call, *signals);
}

}  // namespace engram
