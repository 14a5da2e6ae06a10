#include "agents/trace.h"

#include <algorithm>
#include <stdexcept>

#include "agents/observation_tensor.h"

namespace engram {
namespace {

torch::Tensor observation_tensor(const VecEnv& environment) {
  const ObservationSpec& spec = environment.info().observation;
  torch::Tensor tensor = torch::empty(spec.shape(), observation_dtype(spec));
  std::ranges::copy(environment.observation_N(), static_cast<std::byte*>(tensor.data_ptr()));
  return tensor;
}

}  // namespace

Trace record_trace(VecEnv& environment, ShownPolicy& policy, int episodes, ActionChoice choice,
                   std::uint32_t first_episode) {
  if (environment.size() != 1) throw std::invalid_argument("record_trace plays a single environment");
  std::vector<torch::Tensor> observations, features, probabilities, q_values, final_observations;
  std::vector<std::int32_t> actions;
  std::vector<float> rewards;
  std::vector<std::int64_t> starts;
  std::vector<std::uint8_t> ends, successes;
  Trace trace;

  environment.reset_all(first_episode);
  for (int episode = 0; episode < episodes; ++episode) {
    policy.begin_episodes();
    starts.push_back(static_cast<std::int64_t>(actions.size()));
    EpisodeResult result;
    while (environment.end_N()[0] == End::kNone) {
      observations.push_back(observation_tensor(environment));
      const ShownPolicy::Step step = policy.act(choice);
      features.push_back(step.features_ND[0].clone());
      probabilities.push_back(step.probabilities_NA[0].clone());
      q_values.push_back(step.q_NA[0].clone());
      actions.push_back(step.action_N[0]);
      environment.step(step.action_N);
      rewards.push_back(environment.reward_N()[0]);
      result.total_reward += rewards.back();
      ++result.steps;
    }
    result.success = environment.success_N()[0] != 0;
    final_observations.push_back(observation_tensor(environment));
    ends.push_back(static_cast<std::uint8_t>(environment.end_N()[0]));
    successes.push_back(result.success ? 1 : 0);
    trace.results.push_back(result);
    environment.reset_finished();
  }

  trace.tensors = {{"observations", torch::stack(observations)},
                   {"features", torch::stack(features)},
                   {"action_probabilities", torch::stack(probabilities)},
                   {"q_values", torch::stack(q_values)},
                   {"actions", torch::tensor(actions, torch::kInt32)},
                   {"rewards", torch::tensor(rewards, torch::kFloat32)},
                   {"episode_starts", torch::tensor(starts, torch::kInt64)},
                   {"final_observations", torch::stack(final_observations)},
                   {"episode_ends", torch::tensor(ends, torch::kUInt8)},
                   {"successes", torch::tensor(successes, torch::kUInt8)}};
  return trace;
}

}  // namespace engram
