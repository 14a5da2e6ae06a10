// engram compare: plans the runs of an experiment, runs them as processes of their own, and goes on where it was.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "agents/run/hardware.h"
#include "agents/run/memory_estimate.h"
#include "agents/run/trained_agent.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/gpu_sharing.h"
#include "apps/cli/screen_table.h"
#include "apps/cli/status_display.h"
#include "apps/cli/taken_signals.h"
#include "apps/cli/threads.h"
#include "apps/compare/estimate.h"
#include "apps/compare/live_page.h"
#include "apps/compare/process_launcher.h"
#include "apps/compare/progress.h"
#include "apps/compare/report.h"
#include "apps/compare/shard.h"
#include "apps/train/train_seeds.h"
#include "base/error.h"
#include "base/machine_memory.h"
#include "base/processors.h"
#include "base/words.h"
#include "experiments/plan/budgets.h"
#include "experiments/plan/plan.h"
#include "experiments/plan/random_play.h"
#include "experiments/report/text.h"
#include "experiments/results/csv.h"
#include "experiments/results/earlier_runs.h"
#include "experiments/run/run_all.h"
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
  std::string backbones;
  std::string seeds;
  std::string match;
  std::string reference;
  std::string earlier;
  std::string device = "auto";
  int jobs = 0;
  int seeds_per_job = 1;
  std::string shard = "1/1";
  bool dry_run = false;

  void list_options(OptionList& list) {
    list.add("run", run, "folder of the comparison; new, empty, or one to go on with");
    list.add("config", config, "INI file of the experiment; needless to go on");
    list.add("tasks", tasks, "labels of the tasks to run, as in a,b; all where it is not given");
    list.add("backbones", backbones, "labels of the backbones to run, controls included; all where it is not given");
    list.add("seeds", seeds, "as in 0-4,8; those of the experiment where it is not given");
    list.add("match", match, "parameters | state | flops | none: what widths are chosen to agree in");
    list.add("reference", reference, "label of the backbone whose width stays");
    list.add("earlier", earlier,
             ".csv of an earlier report of this comparison: its finished runs are not made again, and stand in the "
             "reports to come");
    list.add("device", device, "auto (GPUs where there are some) | cpu | cuda");
    list.add("jobs", jobs, {0, 4096}, "runs at once; 0: one for each GPU, or each processor available");
    list.add("seeds-per-job", seeds_per_job, {1, kMostSeedsAtOnce},
             "seeds of a task and a backbone that one process trains at once, as train --seeds does");
    list.add("shard", shard, "I/N: the I-th of N parts of the runs, for N machines or the array of a cluster");
    list.add("dry-run", dry_run, "show the plan, the budgets and how long it takes at most; write nothing");
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
  std::cout << help_head({"engram compare --config FILE --run DIR [--tasks a,b] [--backbones a,b] [--seeds 0-4] "
                          "[--section.key value ...]",
                          "engram compare --run DIR"},
                         {"Trains tasks x backbones x seeds, each run in a run directory and, but for --seeds-per-job, "
                          "a process of its own, several at once. It may be stopped and killed at any time: the same "
                          "command goes on where it was, and tries again what has failed. A later call may add tasks, "
                          "backbones and seeds. Settings on the command line hold for every run."})
            << "The command's own options\n";
  print_options(std::cout, own);
  std::cout
      << "\n"
      << wrapped(
             "Config file: [compare] with question, seeds, match, match_mlp, reference, controls and evaluate (such "
             "as task.corridor_length: 10,20,50: every trained agent is evaluated at these values, too); the "
             "sections of a run's config for what all runs share; [tasks.LABEL] and [backbones.LABEL] with "
             "section.key = value for what is theirs. configs/compare/ has examples.",
             0)
      << "\n\n"
      << wrapped(
             "Signals: SIGINT, SIGTERM, SIGHUP and a closed pipe behind the standard output let all runs save and "
             "leave with status 130, 143, 129 or 141, a second SIGINT or SIGTERM at once; SIGUSR1 lets them save and "
             "go on. Exit status 1: a run has failed; the others are done.",
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
        std::ranges::binary_search(now.seeds, run.seed))
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

Machine find_machine(const CompareOptions& options, const std::vector<const PlannedRun*>& runs) {
  if (options.device != "auto" && options.device != "cpu" && options.device != "cuda")
    throw UserError("--device '" + options.device + "' is not allowed; it takes auto | cpu | cuda");
  const int processors = available_processors();
  const int gpus = options.device == "cpu" ? 0 : static_cast<int>(torch::cuda::device_count());
  const bool needs_gpu = options.device == "cuda" || std::ranges::any_of(runs, [&](const PlannedRun* run) {
                           return options.device != "cpu" && run->config.run.device.starts_with("cuda");
                         });
  if (needs_gpu && gpus == 0) throw UserError(no_gpu_text(device_count_error()) + "; use --device cpu");
  for (int gpu = 0; gpu < gpus; ++gpu)
    parse_device("cuda:" + std::to_string(gpu));  // before any run: it has code for it
  int threads = 1;
  for (const PlannedRun* run : runs) threads = std::max(threads, run->config.run.threads);
  Machine machine{.jobs = options.jobs, .gpus = gpus};
  machine.seeds_per_job = options.seeds_per_job;
  if (machine.jobs == 0) machine.jobs = gpus > 0 ? gpus : std::max(1, processors / (threads * machine.seeds_per_job));
  machine.jobs = std::min(machine.jobs, std::max(1, static_cast<int>(runs.size())));
  machine.threads = std::max(1, processors / machine.runs_at_once());
  return machine;
}

std::string machine_text(const Machine& machine) {
  const int runs = machine.runs_at_once();
  const std::string text = (machine.seeds_per_job > 1 ? "up to " : "") + counted(runs, "run") + " at once on ";
  return text + (machine.gpus == 0 ? "the CPU" : counted(machine.gpus, "GPU"));
}

// ---- The plan, for people.

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

// Of the whole in percent, "75".
std::string share_text(std::int64_t part, std::int64_t whole) {
  return std::to_string(whole == 0 ? 0 : std::lround(100 * static_cast<double>(part) / static_cast<double>(whole)));
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
      else
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

torch::Device device_of(const PlannedRun& run, const Machine& machine) {
  const bool gpu = machine.gpus > 0 && run.config.run.device != "cpu";
  return gpu ? torch::Device(torch::kCUDA, 0) : torch::Device(torch::kCPU);
}

// Throws UserError where one of the runs, as many as go on at once, cannot fit into memory. Seeds are alike.
void check_memory_of_runs(const std::vector<const PlannedRun*>& runs, const Machine& machine) {
  std::set<std::pair<std::string, std::string>> checked;
  for (const PlannedRun* run : runs) {
    if (!checked.emplace(run->task, run->backbone).second) continue;
    const torch::Device device = device_of(*run, machine);
    const int devices = device.is_cuda() ? machine.gpus : 1;
    try {
      check_memory_of_machine(run->config, device, (machine.runs_at_once() + devices - 1) / devices);
    } catch (const UserError& error) {
      throw UserError(run->task + "/" + run->backbone + ", with " + machine_text(machine) + ": " + error.what());
    }
  }
}

void print_estimate(const std::vector<const PlannedRun*>& runs, const Machine& machine) {
  constexpr std::size_t kMostLabel = 22;
  std::map<std::pair<std::string, std::string>, std::vector<const PlannedRun*>> pairs;
  for (const PlannedRun* run : runs) pairs[{run->task, run->backbone}].push_back(run);
  const auto columns = [&](std::string PlannedRun::*label, std::size_t least) {
    for (const PlannedRun* run : runs) least = std::max(least, std::min(kMostLabel, (run->*label).size()));
    return static_cast<int>(least);
  };
  const int tasks = columns(&PlannedRun::task, 5), backbones = columns(&PlannedRun::backbone, 8);
  // Line by line: each is measured for a while.
  std::printf("\n%-*s  %-*s  %4s  %12s  %8s\n", tasks, "to do", backbones, "", "runs", "each at most", "memory");
  double total = 0, longest = 0;
  for (const auto& [pair, group] : pairs) {
    const PlannedRun& run = *group.front();
    const torch::Device device = device_of(run, machine);
    const int threads = use_threads(training_threads(run.config, device, machine.threads).count);
    const double seconds = estimate_seconds(run, device, threads);
    total += seconds * static_cast<double>(group.size());
    longest = std::max(longest, seconds);
    std::printf("%-*s  %-*s  %4zu  %12s  %8s\n", tasks, shortened(run.task, kMostLabel).c_str(), backbones,
                shortened(run.backbone, kMostLabel).c_str(), group.size(), duration_text(seconds).c_str(),
                memory_text(estimate_memory(run.config, device).total()).c_str());
    std::fflush(stdout);
  }
  std::string text = "At most about " + duration_text(std::max(longest, total / machine.runs_at_once())) + " with " +
                     machine_text(machine) +
                     ", as measured here now; runs that reach evaluation.stop_at_success end earlier, runs beside each "
                     "other are slower.";
  if (runs.front()->range) text += " The evaluations at " + runs.front()->range->text() + " come on top.";
  std::cout << "\n" << wrapped(text, 0, kScreenColumns) << "\n";
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
  OptionList own = own_options(options);
  const CommandLine line = parse_command_line(arguments, own, compare_syntax());
  if (line.help) {
    print_compare_help(own);
    return 0;
  }
  std::optional<TakenSignals> signals;
  if (!options.dry_run) signals.emplace({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD});
  const Shard shard = parse_shard(options.shard);
  const fs::path directory = options.run;
  const Wanted wanted = find_experiment(options, line.settings);
  const std::vector<PlannedRun> all = plan_runs(wanted.all, directory);
  const std::vector<const PlannedRun*> runs = runs_of_call(all, wanted.now, shard);
  if (runs.empty()) throw UserError("--shard " + options.shard + " has no run: there are fewer runs than shards");
  const Earlier earlier = find_earlier(options);
  std::vector<const PlannedRun*> to_do;
  for (const PlannedRun* run : runs)
    if (read_run_state(directory, *run, earlier.runs).stage != RunStage::kFinished) to_do.push_back(run);
  const Machine machine = find_machine(options, to_do);
  check_memory_of_runs(to_do, machine);

  if (!wanted.all.question.empty()) std::cout << wrapped(one_line(wanted.all.question), 0, kScreenColumns) << "\n";
  std::cout << size_text(wanted.now)
            << (shard.count > 1 ? ", shard " + options.shard + ": " + counted(runs.size(), "run") : "") << ", in "
            << directory.string() << "\n"
            << to_do.size() << " of " << runs.size() << " to do, " << machine_text(machine) << std::endl;
  if (options.dry_run) {
    print_tasks(wanted.now, runs);
    print_budgets(wanted.now, runs);
    std::cout << std::flush;
    if (!to_do.empty()) print_estimate(to_do, machine);
    return 0;
  }

  if (machine.gpus > 0)
    if (const std::string advice = sharing_advice((machine.runs_at_once() + machine.gpus - 1) / machine.gpus,
                                                  has_multi_process_service(), gpu_share());
        !advice.empty())
      std::cout << advice << std::endl;
  write_plan(directory, wanted.all, all);
  if (earlier.to_keep)
    replace_file(EarlierRuns::file_of(directory), [&](std::ostream& out) { out << *earlier.to_keep; });
  ProcessLauncher launcher(directory, machine, *signals);
  LivePage page(directory, wanted.all, all, earlier.runs);
  const RunsOutcome outcome = [&] {
    CompareProgress progress(std::cout, terminal_width(STDOUT_FILENO), runs, machine.runs_at_once(), &page);
    return run_all(directory, runs, earlier.runs, machine, launcher, progress);
  }();  // its live line is gone
  try {
    if (!to_do.empty()) page.finish();
  } catch (const std::exception& error) {  // the runs themselves are there
    std::cerr << "engram: the page is not written: " << error.what() << std::endl;
  }
  if (outcome.stopped) {
    std::cout << "Stopped by " << signal_name(launcher.stopped_by()) << ". To go on:\n  "
              << shell_command({"engram", "compare", "--run", directory.string()}) << std::endl;
    return kSignalStatus + launcher.stopped_by();
  }
  if (outcome.failed.empty()) {
    std::cout << (runs.size() == 1 ? "The run is finished" : "All " + counted(runs.size(), "run") + " are finished")
              << ". What next:\n  " << shell_command({"engram", "compare", "report", directory.string()}) << std::endl;
    return 0;
  }
  const EndedRun& first = outcome.failed.front();
  throw std::runtime_error(std::to_string(outcome.failed.size()) + " of " + counted(runs.size(), "run") +
                           " failed: " + first.run->name() + " (" + first.reason + ")" +
                           (outcome.failed.size() > 1 ? " and others, see " + (directory / "failures").string() : "") +
                           "; the same command tries again");
}

}  // namespace engram
