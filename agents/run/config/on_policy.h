// What a config with a learner on policy cannot have. Without LibTorch.
#pragma once

#include "agents/run/config/config.h"

namespace engram {

// Throws UserError, naming the key and its value, for what such a learner has no use for or would learn wrongly with.
// Nothing for a learner off policy.
void check_on_policy(const Config& config);

}  // namespace engram
