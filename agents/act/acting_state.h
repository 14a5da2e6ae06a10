// ActingState: where an agent stands in N episodes of environments that somebody else steps: what it remembers of each,
// its last actions, and the streams that it draws sampled actions from.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "agents/act/policy.h"

namespace engram {

class ActingState {
 public:
  // Every row at the beginning of an episode, on the network's device. `action`: the task's; `dtype`: of LibTorch's
  // products on a GPU. With the seed of an agent's run, row i draws as environment i of `engram evaluate` does. No
  // episode has more than `most_steps`, for which the network was made.
  ActingState(std::shared_ptr<AgentNetwork> network, const ActionSpec& action, torch::ScalarType dtype, int num_rows,
              std::uint64_t seed, int most_steps);
  // Goes on from where `other` stands on its own.
  ActingState(const ActingState& other);

  std::int64_t size() const { return action_N_.size(0); }
  // Rows where mask_N (bool [N], on any device) is true begin an episode with the next step.
  void begin_episodes(const torch::Tensor& mask_N);
  // Whether all rows do.
  bool all_begin() const { return (steps_N_ == 0).all().item<bool>(); }
  // The state after a step from this one, which stays as it is: observation_N [N, ...] as the task has them, reward_N
  // float32 [N], what the last actions earned, not read of rows that begin an episode; both on any device. Throws
  // UserError where an episode would be longer than any, DivergedError if probabilities are not finite.
  ActingState act(const torch::Tensor& observation_N, const torch::Tensor& reward_N, ActionChoice choice) const;

  // Of the last act(), on the network's device: the rows of actions (ActingRows), and what the network computed.
  const torch::Tensor& action_N() const { return action_N_; }
  NetworkPolicy::Step step() const { return policy_.last_step(action_N_.device()); }

 private:
  std::int64_t most_steps_;
  torch::Tensor steps_N_;             // of the running episodes; on the CPU
  torch::Tensor action_N_, fresh_N_;  // of ActingRows
  NetworkPolicy policy_;
};

}  // namespace engram
