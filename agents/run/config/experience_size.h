// How much a run keeps to learn from, and the largest batch of it: by the replay's options, or those of the iterations
// of a learner on policy. Without LibTorch.
#pragma once

#include <cstdint>
#include <string>

#include "agents/run/config/config.h"

namespace engram {

struct ExperienceSize {
  std::int64_t rows;            // kept on the device, each with an observation
  std::string rows_key;         // the option that they come from
  std::int64_t row_bytes;       // of one
  std::int64_t batch_episodes;  // of full length
  std::string batch_key;
};

ExperienceSize experience_size(const Config& config);

}  // namespace engram
