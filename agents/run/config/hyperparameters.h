// The settings that make a run what it is, for TensorBoard's page of hyperparameters.
#pragma once

#include <vector>

#include "agents/run/config/config.h"
#include "storage/log/tensorboard.h"

namespace engram {

// Every option that stays the same for the whole of a run (may_change_on_resume()), by its key, with task and backbone:
// true and false, numbers, and words.
std::vector<Hyperparameter> hyperparameters(const Config& config);

}  // namespace engram
