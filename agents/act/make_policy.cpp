#include "agents/act/make_policy.h"

#include <utility>

#include "agents/run/trained/trained_agent.h"

namespace engram {

// Where the build has GPU support (make_policy_cuda.cpp).
std::unique_ptr<Policy> make_one_kernel_policy(const Config& config, std::shared_ptr<AgentNetwork> network,
                                               int num_envs, MemorySpan span, std::uint32_t first_row);

std::unique_ptr<Policy> make_policy(const Config& config, std::shared_ptr<AgentNetwork> network, torch::Device device,
                                    int num_envs, MemorySpan span, std::uint32_t first_row) {
  if (supports_one_kernel(config, device))
    return make_one_kernel_policy(config, std::move(network), num_envs, span, first_row);
  return std::make_unique<NetworkPolicy>(std::move(network), compute_dtype(config, device), num_envs, config.run.seed,
                                         span, device, first_row);
}

}  // namespace engram
