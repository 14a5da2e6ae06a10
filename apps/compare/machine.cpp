#include "apps/compare/machine.h"

#include <algorithm>
#include <set>

#include "agents/run/machine/hardware.h"
#include "agents/run/machine/memory_estimate.h"
#include "apps/train/train_seeds.h"
#include "base/error.h"
#include "base/machine/processors.h"
#include "base/text/words.h"
#include "nn/device/device.h"

namespace engram {

void PoolOptions::list_options(OptionList& list) {
  list.add("device", device, "auto (GPUs where there are some) | cpu | cuda");
  list.add("jobs", jobs, {0, 4096}, "runs at once; 0: one for each GPU, or each processor available");
  list.add("seeds-per-job", seeds_per_job, {1, kMostSeedsAtOnce},
           "seeds of a task and a backbone that one process trains at once, as train --seeds does");
}

Machine find_machine(const PoolOptions& options, const std::vector<const PlannedRun*>& runs) {
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

torch::Device device_of(const PlannedRun& run, const Machine& machine) {
  const bool gpu = machine.gpus > 0 && run.config.run.device != "cpu";
  return gpu ? torch::Device(torch::kCUDA, 0) : torch::Device(torch::kCPU);
}

// Seeds are alike.
void check_runs(const std::vector<const PlannedRun*>& runs, const Machine& machine) {
  std::set<std::string> checked;
  for (const PlannedRun* run : runs) {
    if (!checked.insert(run->place()).second) continue;
    const torch::Device device = device_of(*run, machine);
    const int devices = device.is_cuda() ? machine.gpus : 1;
    try {
      check_precision(run->config, device);
      check_memory_of_machine(run->config, device, (machine.runs_at_once() + devices - 1) / devices);
    } catch (const UserError& error) {
      throw UserError(run->place() + ", with " + machine_text(machine) + ": " + error.what());
    }
  }
}

}  // namespace engram
