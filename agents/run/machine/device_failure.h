// Why a run fails, and what to tell people when memory runs out, or its GPU fails.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "agents/run/config/config.h"
#include "storage/run/run_failure.h"

namespace engram {

// One line for a failure of memory, the machine's or a GPU's, or of the GPU that LibTorch or a kernel's launch has
// thrown; nothing for any other error.
//   out of memory: which of the run's sizes to lower, with their present values.
//   a GPU that is taken: run fewer programs at once.
//   anything else: the device's own words. No such failure can be recovered from in the same process.
std::optional<std::string> device_failure(const std::exception& error, const Config& config);

// Why a run of this config has failed that threw `error`: UserError is a refusal, DivergedError, memory that ran out,
// or no room on a GPU; kError for the rest. The reason is device_failure()'s, or the first line of the error's own
// words.
RunFailure failure_of(const std::exception& error, const Config& config);

// The same for what has no run's config: who is out of memory, and how much more was wanted, or a GPU that is taken;
// nothing for any other error.
std::optional<RunFailure> lack_of_room(const std::exception& error);

}  // namespace engram
