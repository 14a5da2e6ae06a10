// What the runs of a comparison or a sweep compute on, by its options.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "experiments/run/run_all.h"

namespace engram {

// How many runs go on at once, and on what: options of a command.
struct PoolOptions {
  std::string device = "auto";
  int jobs = 0;
  int seeds_per_job = 1;

  void list_options(OptionList& list);
};

// What is there for these runs. Throws UserError for a device that is none, or is not there.
Machine find_machine(const PoolOptions& options, const std::vector<const PlannedRun*>& runs);

// "up to 4 runs at once on 2 GPUs"
std::string machine_text(const Machine& machine);

// Of a run.
torch::Device device_of(const PlannedRun& run, const Machine& machine);

// Throws UserError where one of the runs, as many as go on at once, cannot fit into memory, or wants a precision that
// its device has not.
void check_runs(const std::vector<const PlannedRun*>& runs, const Machine& machine);

}  // namespace engram
