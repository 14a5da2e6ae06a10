// How long the runs of a comparison take, measured by training each pair of task and backbone for a moment.
#pragma once

#include <torch/torch.h>

#include "experiments/experiment.h"

namespace engram {

// Seconds that the whole run takes on `device` if nothing ends it early; of one process that has the machine's share of
// `threads`. Trains for some seconds in this process and writes nothing.
double estimate_seconds(const PlannedRun& run, torch::Device device, int threads);

}  // namespace engram
