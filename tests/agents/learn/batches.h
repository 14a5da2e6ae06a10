// Batches of random episodes, and what tells two batches apart.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agents/play/episode.h"
#include "agents/play/episode_store.h"
#include "base/rng.h"
#include "tests/agents/act/small_agent.h"

namespace engram {

// Episodes of ragged lengths, every second one truncated.
inline EpisodeBatch random_batch(const TaskInfo& task, std::uint32_t stream) {
  EpisodeStore store({}, task, 100, torch::kCPU);
  Rng rng(1, Purpose::kTest, 0, stream);
  for (int i = 0; i < 5; ++i)
    store.add(random_episode(task,
                             i == 3 ? task.max_episode_steps : 1 + static_cast<int>(rng.below(task.max_episode_steps)),
                             i % 2 == 0 ? End::kTerminated : End::kTruncated, rng));
  return store.gather({0, 1, 2, 3, 4});
}

// Nothing where `actual`, of any device, holds what `expected`, of the CPU, holds, and only padding after it.
inline std::string difference(const EpisodeBatch& actual, const EpisodeBatch& expected, int num_actions) {
  const auto compare = [](const char* name, const torch::Tensor& on_device, const torch::Tensor& wanted,
                          double padding) -> std::string {
    const torch::Tensor found = on_device.cpu();
    if (found.scalar_type() != wanted.scalar_type()) return std::string(name) + ": another type";
    if (wanted.dim() == 1) return torch::equal(found, wanted) ? "" : name;
    const std::int64_t time = wanted.size(1);
    if (found.size(1) < time || !torch::equal(found.narrow(1, 0, time), wanted)) return name;
    const torch::Tensor behind = found.narrow(1, time, found.size(1) - time);
    return (behind == padding).all().item<bool>() ? "" : std::string(name) + ": padding";
  };
  for (const std::string& found :
       {compare("observation", actual.observation, expected.observation, 0),
        compare("previous action", actual.previous_action_BT1, expected.previous_action_BT1, num_actions),
        compare("previous reward", actual.previous_reward_BT1, expected.previous_reward_BT1, 0),
        compare("action", actual.action_BT, expected.action_BT, 0),
        compare("reward", actual.reward_BT, expected.reward_BT, 0),
        compare("terminated", actual.terminated_BT, expected.terminated_BT, 0),
        compare("steps", actual.steps_B, expected.steps_B, 0), compare("mask", actual.mask_BT, expected.mask_BT, 0)})
    if (!found.empty()) return found;
  if (!expected.log_prob_BT.defined()) return actual.log_prob_BT.defined() ? "log-probabilities: there are some" : "";
  if (!actual.log_prob_BT.defined()) return "log-probabilities: there are none";
  for (const std::string& found : {compare("log-probability", actual.log_prob_BT, expected.log_prob_BT, 0),
                                   compare("value", actual.value_BT, expected.value_BT, 0),
                                   compare("advantage", actual.advantage_BT, expected.advantage_BT, 0)})
    if (!found.empty()) return found;
  return "";
}

inline EpisodeBatch to_device(const EpisodeBatch& batch, torch::Device device) {
  std::vector<torch::Tensor> moved;
  for (const torch::Tensor& tensor : batch.tensors()) moved.push_back(tensor.to(device));
  return EpisodeBatch::of(moved);
}

}  // namespace engram
