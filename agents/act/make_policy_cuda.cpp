#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "agents/act/action_rule.h"
#include "agents/act/make_policy.h"
#include "agents/act/one_kernel_policy.h"
#include "agents/run/trained/trained_agent.h"

namespace engram {
namespace {

// One kernel reads all weights again for each few environments: what that saves in launches it loses where the weights
// are large and the environments many.
constexpr std::int64_t kNarrow = 100;
constexpr int kFew = 256;

Dtype operands_of(const Config& config) {
  return compute_dtype(config, torch::kCUDA) == torch::kBFloat16 ? Dtype::kBfloat16 : Dtype::kFloat32;
}

}  // namespace

Support supports_one_kernel(const Config& config, torch::Device device) {
  if (!device.is_cuda()) return Support::no("the agent acts on the CPU");
  if (config.run.kernels == Kernels::kOff) return Support::no("run.kernels is off");
  if (Support rule = config.learner.action_rule(torch::kCPU)->draws_from_actor(); !rule) return rule;
  if (config.memory.width() > kNarrow && config.run.num_envs > kFew)
    return Support::no(std::to_string(config.run.num_envs) + " environments with a memory.width of " +
                       std::to_string(config.memory.width()) + " act faster by a kernel for each operation");
  return OneKernelPolicy::supports(config.network, config.memory, config.task.info(), operands_of(config));
}

std::string one_kernel_limits() {
  return "hqlt and deltanet with memory.width up to " + std::to_string(kAgentStepMaxWidth) +
         ", memory.width / memory.heads up to " + std::to_string(kAgentStepMaxHeadWidth) + " (even, for rope), up to " +
         std::to_string(kAgentStepMaxLayers) + " layers and " + std::to_string(kAgentStepMaxActions) +
         " actions, that see no previous actions or rewards and fit shared memory; wider than " +
         std::to_string(kNarrow) + " in up to " + std::to_string(kFew) + " environments";
}

std::unique_ptr<Policy> make_one_kernel_policy(const Config& config, std::shared_ptr<AgentNetwork> network,
                                               int num_envs, MemorySpan span, std::uint32_t first_row) {
  return std::make_unique<OneKernelPolicy>(std::move(network), config.network, config.memory, config.task.info(),
                                           operands_of(config), num_envs, config.run.seed, span, first_row);
}

}  // namespace engram
