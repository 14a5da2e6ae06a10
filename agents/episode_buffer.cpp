#include "agents/episode_buffer.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "agents/episode_log.h"

namespace engram {

void ReplayOptions::list_options(OptionList& list) {
  list.add("capacity_steps", capacity_steps, {1, 1'000'000'000'000},
           "environment steps kept; the oldest episodes go first");
  list.add("minimum_episodes", minimum_episodes, {1, 1'000'000'000}, "episodes kept even beyond capacity_steps");
  list.add("batch_episodes", batch_episodes, {1, 1'000'000}, "whole episodes in the batch of one update");
}

EpisodeBuffer::EpisodeBuffer(const ReplayOptions& options, const TaskInfo& task) : options_(options), task_(task) {}

void EpisodeBuffer::add(Episode episode) {
  const std::int64_t steps = episode.steps();
  const auto observation_bytes = static_cast<std::int64_t>(episode.observations.size());
  if (steps < 1 || static_cast<std::int64_t>(episode.rewards.size()) != steps ||
      observation_bytes != (steps + 1) * task_.observation.bytes())
    throw std::invalid_argument("an episode of " + std::to_string(steps) + " actions, " +
                                std::to_string(episode.rewards.size()) + " rewards and " +
                                std::to_string(observation_bytes) + " bytes of observations");
  steps_ += steps;
  episodes_.push_back(std::move(episode));
  while (steps_ > options_.capacity_steps && episodes() > options_.minimum_episodes) {
    steps_ -= episodes_.front().steps();
    episodes_.pop_front();
  }
}

EpisodeBatch EpisodeBuffer::sample(int batch, Rng& rng, torch::Device device) const {
  if (episodes_.empty()) throw std::logic_error("a sample of an empty replay buffer");
  std::vector<std::int64_t> indices(batch);
  for (std::int64_t& index : indices) index = rng.below(static_cast<std::uint32_t>(episodes_.size()));
  return gather(indices, device);
}

EpisodeBatch EpisodeBuffer::gather(const std::vector<std::int64_t>& indices, torch::Device device) const {
  const auto batch = static_cast<std::int64_t>(indices.size());
  std::int64_t longest = 0;
  for (const std::int64_t index : indices) longest = std::max(longest, episodes_.at(index).steps());

  std::vector<std::int64_t> observation_shape{batch, longest + 1};
  observation_shape.insert(observation_shape.end(), task_.observation.shape.begin(), task_.observation.shape.end());
  const auto element = task_.observation.type == ElementType::kUint8 ? torch::kUInt8 : torch::kFloat32;
  EpisodeBatch result{
      .observation = torch::empty(observation_shape, element),
      .previous_action_BT1 = torch::full({batch, longest + 1}, task_.num_actions(), torch::kInt64),
      .previous_reward_BT1 = torch::zeros({batch, longest + 1}),
      .action_BT = torch::zeros({batch, longest}, torch::kInt64),
      .reward_BT = torch::zeros({batch, longest}),
      .terminated_BT = torch::zeros({batch, longest}),
      .steps_B = torch::empty({batch}, torch::kInt64),
      .mask_BT = torch::zeros({batch, longest}),
  };

  auto* const observation = static_cast<std::byte*>(result.observation.data_ptr());
  const std::int64_t row_bytes = task_.observation.bytes();
  for (std::int64_t b = 0; b < batch; ++b) {
    const Episode& episode = episodes_[indices[b]];
    const std::int64_t steps = episode.steps();
    std::byte* const first_row = observation + b * (longest + 1) * row_bytes;
    std::memcpy(first_row, episode.observations.data(), episode.observations.size());
    std::memset(first_row + (steps + 1) * row_bytes, 0, static_cast<std::size_t>((longest - steps) * row_bytes));
    std::copy(episode.actions.begin(), episode.actions.end(), result.action_BT.data_ptr<std::int64_t>() + b * longest);
    std::copy(episode.actions.begin(), episode.actions.end(),
              result.previous_action_BT1.data_ptr<std::int64_t>() + b * (longest + 1) + 1);
    std::copy(episode.rewards.begin(), episode.rewards.end(), result.reward_BT.data_ptr<float>() + b * longest);
    std::copy(episode.rewards.begin(), episode.rewards.end(),
              result.previous_reward_BT1.data_ptr<float>() + b * (longest + 1) + 1);
    std::fill_n(result.mask_BT.data_ptr<float>() + b * longest, steps, 1.0f);
    if (episode.end == End::kTerminated) result.terminated_BT.data_ptr<float>()[b * longest + steps - 1] = 1;
    result.steps_B.data_ptr<std::int64_t>()[b] = steps;
  }

  for (torch::Tensor* tensor :
       {&result.observation, &result.previous_action_BT1, &result.previous_reward_BT1, &result.action_BT,
        &result.reward_BT, &result.terminated_BT, &result.steps_B, &result.mask_BT})
    *tensor = tensor->to(device);
  return result;
}

void EpisodeBuffer::visit_state(StateArchive& archive, VecEnv& environments) {
  EpisodeLog log;
  if (!archive.restoring())
    for (const Episode& episode : episodes_) log.add(episode);
  log.visit_state(archive);
  if (!archive.restoring()) return;
  episodes_.clear();
  steps_ = 0;
  log.play(environments, EpisodeLog::Ends::kAll, archive, [this](Episode episode) { add(std::move(episode)); });
}

}  // namespace engram
