// The synthetic retrieval of Schlag et al. 2021, section 6.1: pairs of a key and a value, one pair a step, and then a
// key whose value is asked.
#pragma once

#include <memory>

#include "experiments/probe/task.h"

namespace engram {

std::unique_ptr<ProbeTask> make_retrieval_task();

}  // namespace engram
