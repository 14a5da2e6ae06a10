// OneKernelPolicy: a whole step of N agents on the GPU in one kernel (kernels/acting/agent_step).
//
// The same agent as NetworkPolicy: the same encoder, memory and actor, actions drawn from the same streams. It computes
// neither critics nor what is seen of previous actions and rewards.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>

#include "agents/act/network.h"
#include "agents/act/policy.h"
#include "base/support.h"
#include "kernels/acting/agent_step/agent_step.h"

namespace engram {

class OneKernelPolicy final : public Policy {
 public:
  // Whether an agent with these options can act this way on the current device.
  static Support supports(const NetworkOptions& options, const BackboneConfig& backbone, const TaskInfo& task,
                          Dtype operands);

  // `network` was built from the other arguments and stands on the current GPU, in float32; its parameters must stay
  // where they are. `operands`: of matrix products (AgentStepper). Dropout, in training mode, is keyed by the network's
  // own clock, with places of its own beside those of the network's dropouts. Throws UserError for what is not
  // supported.
  OneKernelPolicy(std::shared_ptr<AgentNetwork> network, const NetworkOptions& options, const BackboneConfig& backbone,
                  const TaskInfo& task, Dtype operands, int num_envs, std::uint64_t seed, MemorySpan span,
                  std::uint32_t first_row = 0);

  void act(const ActingRows& rows, ActionChoice choice) override;
  void refresh_weights() override;
  std::string description() const override { return "one kernel a step on the GPU"; }

 private:
  AgentStepShape shape_;
  AgentStepper stepper_;
  AgentStepRows rows_;      // without dropout
  AgentStepRows dropping_;  // with it
};

}  // namespace engram
