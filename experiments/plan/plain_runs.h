// Runs that belong to no comparison, put side by side: grouped by task, backbone and seed from their own configs.
#pragma once

#include <filesystem>
#include <vector>

#include "experiments/results/results.h"

namespace engram {

// Tasks and backbones are told apart by all their options, labels name those that differ. The other settings must be
// equal in the runs of one task and backbone, but for the seed and what is no part of the experiment (threads, device,
// checkpoints); those that differ between groups are named in Results::notes. A place without a run counts as missing.
// Throws UserError, naming the folders and the setting with both values, if the runs of one group differ, or are of the
// same seed; for a folder that is no run directory; and where no run is finished.
Results read_plain_runs(const std::vector<std::filesystem::path>& folders);

}  // namespace engram
