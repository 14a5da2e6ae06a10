// What to tell people when memory runs out, or the GPU of a run fails.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "agents/run/config/config.h"

namespace engram {

// One line for a failure of memory, the machine's or a GPU's, or of the GPU that LibTorch or a kernel's launch has
// thrown; nothing for any other error.
//   out of memory: which of the run's sizes to lower, with their present values.
//   anything else: the device's own words. No such failure can be recovered from in the same process.
std::optional<std::string> device_failure(const std::exception& error, const Config& config);

// The same for what has no run's config: who is out of memory, and how much more was wanted; nothing for any other
// error.
std::optional<std::string> memory_failure(const std::exception& error);

}  // namespace engram
