// Which policy acts for an agent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agents/act/policy.h"
#include "agents/run/config/config.h"
#include "base/support.h"

namespace engram {

// Whether the agent's step is one kernel on this device. Says why not.
Support supports_one_kernel(const Config& config, torch::Device device);

// What one kernel takes, for people: a sentence of the limits.
std::string one_kernel_limits();

// The first of the policies that supports the agent, its rows on `device`, where the network is. `first_row`: of the
// streams that actions are drawn from.
std::unique_ptr<Policy> make_policy(const Config& config, std::shared_ptr<AgentNetwork> network, torch::Device device,
                                    int num_envs, MemorySpan span, std::uint32_t first_row = 0);

}  // namespace engram
