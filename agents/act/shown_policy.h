// ShownPolicy: an agent that acts in environments of the CPU and shows what it computes, for films and traces. The same
// network's step as NetworkPolicy's, wherever the network is.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "agents/act/policy.h"
#include "envs/vec/vec_env.h"

namespace engram {

class ShownPolicy {
 public:
  struct Step : NetworkPolicy::Step {
    std::vector<std::int32_t> action_N;  // rows (envs/action.h)
  };

  // Acts in these environments, which outlive it; sampled actions are those of Policy::draw_from(stream) from row
  // `first_row` on.
  ShownPolicy(const VecEnv& environments, std::shared_ptr<AgentNetwork> network, torch::ScalarType dtype,
              std::uint64_t seed, std::uint32_t stream, std::uint32_t first_row = 0);

  // Every environment, or one of them, begins an episode with the next act().
  void begin_episodes();
  void begin_episode(std::size_t row) { rows_.fresh_N.data_ptr<std::uint8_t>()[row] = 1; }
  // Reads the environments' observations and last rewards and returns what to do; the caller takes exactly these
  // actions.
  Step act(ActionChoice choice);
  // The same of actions that were chosen elsewhere.
  Step follow(const std::vector<std::int32_t>& action_N);
  // act(), and `view` gets what the backbone, which must show its memory, read from it.
  Step act_and_view(ActionChoice choice, MemoryView& view);
  // ActionRule::values_are_of_actions(), of a step's value_NK.
  bool values_are_of_actions() const { return policy_.values_are_of_actions(); }

 private:
  Step shown();

  ActingRows rows_;
  NetworkPolicy policy_;
};

}  // namespace engram
