// ActionRule: how actions come from the heads of an agent's network. Policies, evaluations, films and traces act by it,
// whatever the learner is.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "base/support.h"

namespace engram {

class AgentNetwork;

class ActionRule {
 public:
  virtual ~ActionRule() = default;

  // Logarithms of probabilities, up to a constant, of the actions at features [N, D] -> [N, A]: the greedy action is
  // the most probable one, sampled actions are drawn from them. Of a continuous action [N, 2 A]: the means of its
  // numbers, which are the greedy action, and the logarithms of the standard deviations of the independent normal
  // distributions that sampled ones are drawn from, in the task's units. Nothing waits for the device; what is not
  // finite in the network's numbers is not finite here.
  virtual torch::Tensor logits(AgentNetwork& network, const torch::Tensor& features_ND) const = 0;
  // What the agent expects, for people: [N, D] -> Q(h, a) of each action, [N, A], or V(h) of the state alone, of what
  // follows by its own policy, [N, 1].
  virtual torch::Tensor values(AgentNetwork& network, const torch::Tensor& features_ND) const = 0;
  // Which of the two; the same for all networks.
  virtual bool values_are_of_actions() const { return true; }

  // Whether logits() are the outputs of the head `actor` as they are, which one kernel knows (one_kernel_policy.h).
  virtual Support draws_from_actor() const { return {}; }

  // A rule that explores less as training goes on: what holds from so many environment steps on. Other agents'
  // sampled actions are those of the end of training.
  virtual void explore(std::int64_t) {}
};

}  // namespace engram
