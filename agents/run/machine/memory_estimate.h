// What a run takes of memory, from its config alone, before anything of it is allocated; and the refusal of what cannot
// fit. Parameters are counted exactly (nn/device/without_storage.h), replay and optimiser follow from that and the
// config; what an update keeps for its backward pass is estimated.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "agents/run/config/config.h"

namespace engram {

struct MemoryPart {
  std::string what;  // "replay"
  double bytes;      // on the device that computes
  std::string key;   // of the option that it grows with; empty: none
};

struct MemoryEstimate {
  std::vector<MemoryPart> parts;  // the largest first

  double total() const;
  // "1.46 GB: replay 900 MB, update 412 MB, program 300 MB", with the three largest parts.
  std::string text() const;
};

// Measured peaks of whole runs on a CPU lie within this factor of the estimate, either way (docs/use/guarantees.md).
inline constexpr double kMemoryFactor = 2;

MemoryEstimate estimate_memory(const Config& config, torch::Device device);

// Throws UserError if the run cannot fit into so many bytes, even if it takes kMemoryFactor less than is estimated. The
// line names the option that takes most and the largest value of it that would fit.
void check_memory(const Config& config, torch::Device device, double available);

// The same of what this machine has: memory available to the program, or all of the GPU's, for each of `at_once` runs.
// Passes where the machine does not say what it has.
void check_memory_of_machine(const Config& config, torch::Device device, int at_once = 1);

}  // namespace engram
