// engram probe: what the backbones can do without reinforcement learning.
#include "experiments/probe/probe.h"

#include <ATen/DeviceAccelerator.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agents/run/machine/device_failure.h"
#include "agents/run/machine/hardware.h"
#include "agents/run/trained/trained_agent.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/threads.h"
#include "apps/compare/shard.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/words.h"
#include "storage/run/run_failure.h"
#include "storage/run/run_lock.h"

namespace engram {
namespace {

struct ProbeCommand {
  ProbePreset preset = ProbePreset::kFull;
  std::string run;
  std::string text;
  std::string device = "auto";
  int threads = 0;
  int jobs = 1;
  std::string shard;
  ProbeOptions probe;

  explicit ProbeCommand(ProbePreset chosen) : preset(chosen), probe(chosen) {}

  void list_options(OptionList& list) {
    list.add("run", run, "folder of the results; what is finished there is not computed again");
    list_preset(list, preset);
    probe.list_options(list);
    list.add("text", text, "the file of the task text, whose next byte is asked");
    list.add("device", device, "auto (a GPU where there is one), cpu, cuda or cuda:N");
    list.add("threads", threads, {0, 1024},
             "CPU threads of all jobs together; 0: one each for small networks, else all available");
    list.add("jobs", jobs, {1, 1024}, "processes that share the work; with --device auto they share the GPUs, too");
    list.add("shard", shard, "I/N: the I-th of N parts of the work, I from 1 to N, for N machines; makes no table");
  }
};

const CommandSyntax kProbeSyntax = {.command = "probe",
                                    .values = {{"run", {"DIR"}}, {"text", {"FILE"}}, {"device", kDeviceValues}}};

// The options given, over the defaults of the preset among them.
CommandLine parse(const std::vector<std::string>& arguments, ProbeCommand& command) {
  OptionList list = own_options(command);
  return parse_command_line(arguments, list, kProbeSyntax);
}

void print_probe_help(ProbeCommand& command) {
  std::cout
      << help_head(
             {"Usage: engram probe --run DIR [options]"},
             {"Teaches backbones tasks without reinforcement learning, embedding, backbone and a linear map with "
              "AdamW, and measures what they have learnt on longer or harder sequences. DIR gets a file for each task, "
              "backbone, seed and rate, a table (scores.json, scores.csv) and the same to read (probe.md)."})
      << "Tasks, each with its options\n";
  constexpr std::size_t kNameColumn = 20;
  for (const ProbeTaskInfo& info : probe_tasks()) {
    const auto task = probe_task_by_name(info.name);
    const OptionList options = own_options(*task);
    std::string text = info.description;
    for (const Option& option : options.options()) text += "; " + option.name + "=" + option.get() + ": " + option.help;
    std::cout << "  " << std::left << std::setw(kNameColumn) << info.name << wrapped(text, 2 + kNameColumn) << "\n";
  }
  std::cout << "\nOptions\n";
  OptionList list = own_options(command);
  print_options(std::cout, list);
  std::cout << "\nExamples\n"
               "  engram probe --preset small --run runs/probe\n"
               "  engram probe --tasks parity,recall --seeds 0-4 --jobs 2 \\\n"
               "    --backbones deltanet,hqlt:mixing=sum,transformer --run runs/probe_gpu\n"
               "  engram probe --tasks text --text book.txt --match parameters --run runs/text\n";
}

struct Failed {
  int cells = 0;         // other than for lack of memory
  int without_room = 0;  // for lack of it
  bool any() const { return cells > 0 || without_room > 0; }
};

// Of the cells, those of the shard that are not finished and that no other process computes. One that fails says so and
// does not stop the others.
Failed compute(const ProbeCommand& command, const std::vector<ProbeCell>& cells, const Shard& shard,
               torch::Device device, const Threads& threads) {
  const std::filesystem::path folder = std::filesystem::path(command.run) / "cells";
  const torch::DeviceGuard guard(device);
  Failed failed;
  std::vector<WorkLock> given_up;  // so that no other process tries at once what has failed here
  for (std::size_t i = shard.index; i < cells.size(); i += shard.count) {
    const ProbeCell& cell = cells[i];
    if (read_probe_cell(cell, folder)) continue;
    auto lock = WorkLock::take((folder / cell.file).replace_extension(".lock"));
    if (!lock || read_probe_cell(cell, folder)) continue;  // or has computed meanwhile
    std::string outcome;
    try {
      const ProbeResult result = run_probe_cell(cell, command.probe, device, folder);
      outcome = formatted("%.1f%% (%.1f s, ", 100 * result.normalised(), result.seconds) + threads.text() + ")";
    } catch (const c10::Error& error) {
      const std::optional<RunFailure> lack = lack_of_room(error);
      ++(lack ? failed.without_room : failed.cells);
      outcome = lack ? lack->reason : error.what_without_backtrace();
      outcome.erase(std::min(outcome.find('\n'), outcome.size()));
      given_up.push_back(std::move(*lock));
    }
    // What LibTorch keeps of a finished cell no other process could have.
    if (device.is_cuda()) at::accelerator::emptyCache();
    std::fprintf(stderr, "%zu/%zu  %s  %s  seed %llu  rate %g: %s\n", i + 1, cells.size(), cell.task.c_str(),
                 cell.backbone.c_str(), static_cast<unsigned long long>(cell.seed), cell.rate, outcome.c_str());
  }
  return failed;
}

int exit_status_of(const Failed& failed) {
  if (!failed.any()) return 0;
  return exit_status(failed.without_room > 0 ? FailureKind::kOutOfMemory : FailureKind::kError);
}

// The command line of a process that computes what others of `command` do not.
std::vector<std::string> words_of_job(ProbeCommand command, int job, int gpus, const Threads& threads) {
  command.threads = threads.count;
  command.shard = "1/1";
  command.jobs = 1;
  if (command.device == "auto" && gpus > 0) command.device = "cuda:" + std::to_string(job % gpus);
  std::vector<std::string> words = {"engram", "probe"};
  OptionList list = own_options(command);
  for (const std::string& word : command_line_words(list)) words.push_back(word);
  return words;
}

// Of each of the command's jobs.
Threads threads_of_job(const ProbeCommand& command, torch::Device device) {
  const int all = command.threads > 0 ? command.threads : available_processors();
  const int share = std::max(1, all / command.jobs);
  if (command.threads > 0 || device.is_cuda()) return {share};
  return choose_threads(0, probe_work(command.probe), share);
}

// So many processes, each of which takes a cell when it has finished another. Returns how many of them failed.
Failed compute_in_processes(const ProbeCommand& command, int jobs, const Threads& threads) {
  const int gpus = static_cast<int>(torch::cuda::device_count());
  std::vector<pid_t> children;
  const pid_t parent = getpid();
  for (int job = 0; job < jobs; ++job) {
    std::vector<std::string> words = words_of_job(command, job, gpus, threads);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("another process cannot be started");
    if (child == 0) {  // dies with its parent, which may be gone already
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() == parent) execv("/proc/self/exe", argv.data());
      _exit(1);
    }
    children.push_back(child);
  }
  Failed failed;
  for (const pid_t child : children) {
    int status = 0;
    const bool ended = waitpid(child, &status, 0) == child && WIFEXITED(status);
    if (ended && WEXITSTATUS(status) == 0) continue;
    ++(ended && kind_of_exit(WEXITSTATUS(status)) == FailureKind::kOutOfMemory ? failed.without_room : failed.cells);
    if (WIFSIGNALED(status))
      std::fprintf(stderr, "engram: a process of the probe was ended by a signal: %s\n", strsignal(WTERMSIG(status)));
  }
  return failed;
}

}  // namespace

void describe_probe(const CommandVisitor& visit) {
  ProbeCommand command(ProbePreset::kFull);
  OptionList list = own_options(command);
  visit("probe", list, kProbeSyntax);
}

int run_probe(const std::vector<std::string>& arguments) {
  ProbeCommand command(ProbePreset::kFull);
  CommandLine line = parse(arguments, command);
  if (command.preset != ProbePreset::kFull) {
    const ProbePreset preset = command.preset;
    command = ProbeCommand(preset);
    line = parse(arguments, command);
  }
  command.probe.tasks = with_preset_sizes(command.probe.tasks, command.preset);
  if (!command.text.empty()) command.probe.tasks = with_text(command.probe.tasks, std::exchange(command.text, {}));
  if (line.help) {
    print_probe_help(command);
    return 0;
  }
  if (command.run.empty()) throw UserError("--run DIR is missing: the folder of the results");
  const Shard shard = command.shard.empty() ? Shard{} : parse_shard(command.shard);
  if (!command.shard.empty() && command.jobs > 1) throw UserError("--shard is for one process; leave --jobs out");
  const std::vector<ProbeCell> cells = plan_probe(command.probe);
  const torch::Device device = parse_device(command.device);
  if (command.probe.training.network.bfloat16 && !device.is_cuda())
    throw UserError("--bfloat16 needs a GPU; the CPU computes in float32");
  const std::filesystem::path folder(command.run);
  std::error_code error;
  std::filesystem::create_directories(folder / "cells", error);
  if (error)
    throw UserError(std::string("'").append(folder.string()) +
                    "' cannot be made a folder of results: " + error.message());

  const Threads threads = threads_of_job(command, device);
  Failed failed;
  if (command.jobs > 1) {
    failed = compute_in_processes(command, command.jobs, threads);
    if (failed.without_room > 0) {
      std::fputs("engram: parts that memory was too small for beside others are tried again by themselves\n", stderr);
      failed = compute_in_processes(command, 1, threads);
    }
  } else {
    use_threads(threads.count);
    failed = compute(command, cells, shard, device, threads);
  }
  if (!command.shard.empty()) return exit_status_of(failed);  // the others' work may not be there yet
  const ProbeSummary summary = summarise_probe(command.probe, folder);
  std::cout << summary.markdown;
  const std::string parts = std::to_string(summary.missing) + " of " + counted(cells.size(), "part");
  if (failed.any()) throw std::runtime_error(parts + " failed; the same command tries them again");
  if (summary.missing > 0)
    throw std::runtime_error(parts +
                             " are still computed by another program; the same command then has the whole table");
  return 0;
}

}  // namespace engram
