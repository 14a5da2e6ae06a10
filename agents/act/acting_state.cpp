#include "agents/act/acting_state.h"

#include <string>
#include <utility>

#include "agents/play/evaluator.h"
#include "agents/run/trained/trained_agent.h"
#include "base/error.h"

namespace engram {

ActingState::ActingState(std::shared_ptr<AgentNetwork> network, const ActionSpec& action, torch::ScalarType dtype,
                         int num_rows, std::uint64_t seed, int most_steps)
    : most_steps_(most_steps),
      steps_N_(torch::zeros({num_rows}, torch::kInt64)),
      policy_(network, dtype, num_rows, seed, MemorySpan::kEpisode, network->parameters().front().device()) {
  const torch::Device device = network->parameters().front().device();
  action_N_ = action_rows(action, num_rows, device);
  fresh_N_ = torch::ones({num_rows}, torch::TensorOptions(device).dtype(torch::kUInt8));
  policy_.draw_from(evaluation_actions(kFirstUnseenEpisode));
}

ActingState::ActingState(const ActingState& other)
    : most_steps_(other.most_steps_),
      steps_N_(other.steps_N_.clone()),
      action_N_(other.action_N_.clone()),
      fresh_N_(other.fresh_N_.clone()),
      policy_(other.policy_) {}

void ActingState::begin_episodes(const torch::Tensor& mask_N) {
  steps_N_.masked_fill_(mask_N.to(torch::kCPU), 0);
  fresh_N_.masked_fill_(mask_N.to(fresh_N_.device()), 1);
}

ActingState ActingState::act(const torch::Tensor& observation_N, const torch::Tensor& reward_N,
                             ActionChoice choice) const {
  ActingState next(*this);
  next.steps_N_ += 1;
  // One more for the observation behind an episode's last step, which some loops pass before they begin the next.
  if (const auto steps = next.steps_N_.max().item<std::int64_t>(); steps > most_steps_ + 1)
    throw UserError("a row has come to step " + std::to_string(steps) +
                    " of its episode, but the task's have at most " + std::to_string(most_steps_) +
                    ": say where episodes begin");
  const torch::Device device = action_N_.device();
  next.policy_.act({.observation_N = observation_N.to(device),
                    .reward_N = reward_N.to(device).masked_fill(fresh_N_.to(torch::kBool), 0),
                    .fresh_N = next.fresh_N_,
                    .action_N = next.action_N_},
                   choice);
  if (next.policy_.diverged()) throw DivergedError("the policy's action probabilities are not finite");
  return next;
}

}  // namespace engram
