#include "agents/device_episode_buffer.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace engram {
namespace {

std::vector<std::int64_t> observation_shape(std::initializer_list<std::int64_t> leading, const ObservationSpec& spec) {
  std::vector<std::int64_t> shape(leading);
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return shape;
}

}  // namespace

DeviceEpisodeBuffer::DeviceEpisodeBuffer(const ReplayOptions& options, const TaskInfo& task, int max_recorded,
                                         torch::Device device)
    : task_(task),
      device_(device),
      capacity_(std::max(options.minimum_episodes, options.capacity_steps / task.max_episode_steps)),
      slots_(capacity_ + max_recorded),
      origin_S_(slots_) {
  if (!device.is_cuda() || max_recorded < 1)
    throw std::invalid_argument("a device episode buffer on " + device.str() + " for " + std::to_string(max_recorded) +
                                " episodes at a time");
  const std::int64_t time = task.max_episode_steps, batch = options.batch_episodes;
  const auto bytes = torch::TensorOptions(device).dtype(torch::kUInt8);
  const auto floats = torch::TensorOptions(device).dtype(torch::kFloat32);
  const auto longs = torch::TensorOptions(device).dtype(torch::kInt64);
  const auto elements = task.observation.type == ElementType::kUint8 ? bytes : floats;

  observation_ = torch::empty({slots_, time + 1, task.observation.bytes()}, bytes);
  device_ = observation_.device();  // with its index
  action_ = torch::empty({slots_, time}, bytes.dtype(torch::kInt32));
  reward_ = torch::empty({slots_, time}, floats);
  steps_ = torch::empty({slots_}, bytes.dtype(torch::kInt32));
  terminated_ = torch::empty({slots_}, bytes);
  success_ = torch::empty({slots_}, bytes);
  store_ = {slots_,
            time,
            task.observation.bytes(),
            observation_.data_ptr<std::uint8_t>(),
            action_.data_ptr<std::int32_t>(),
            reward_.data_ptr<float>(),
            steps_.data_ptr<std::int32_t>(),
            terminated_.data_ptr<std::uint8_t>(),
            success_.data_ptr<std::uint8_t>()};
  recorded_slot_N_ = torch::empty({max_recorded}, longs);
  sampled_slot_B_ = torch::empty({batch}, longs);
  batch_ = {.observation = torch::empty(observation_shape({batch, time + 1}, task.observation), elements),
            .previous_action_BT1 = torch::empty({batch, time + 1}, longs),
            .previous_reward_BT1 = torch::empty({batch, time + 1}, floats),
            .action_BT = torch::empty({batch, time}, longs),
            .reward_BT = torch::empty({batch, time}, floats),
            .terminated_BT = torch::empty({batch, time}, floats),
            .steps_B = torch::empty({batch}, longs),
            .mask_BT = torch::empty({batch, time}, floats)};
}

std::int64_t DeviceEpisodeBuffer::slot_of(std::int64_t position) const {
  return (next_ - held_ + position + slots_) % slots_;
}

// Through pinned memory, which LibTorch gives to no one else before the copy is done.
torch::Tensor DeviceEpisodeBuffer::upload(const std::vector<std::int64_t>& slots, const torch::Tensor& to) const {
  const auto count = static_cast<std::int64_t>(slots.size());
  const torch::Tensor staged = torch::empty({count}, torch::TensorOptions(torch::kInt64).pinned_memory(true));
  std::copy(slots.begin(), slots.end(), staged.data_ptr<std::int64_t>());
  torch::Tensor target = to.narrow(0, 0, count);
  target.copy_(staged, /*non_blocking=*/true);
  return target;
}

torch::Tensor DeviceEpisodeBuffer::slots_for(int count) {
  if (count < 1 || count > recorded_slot_N_.size(0))
    throw std::invalid_argument(std::to_string(count) + " slots of a buffer that records up to " +
                                std::to_string(recorded_slot_N_.size(0)) + " episodes at a time");
  handed_out_ = count;
  std::vector<std::int64_t> slots(count);
  for (int i = 0; i < count; ++i) slots[i] = slot_of(held_ + i);
  return upload(slots, recorded_slot_N_);
}

void DeviceEpisodeBuffer::add_recorded(std::uint32_t number) {
  for (int i = 0; i < handed_out_; ++i) origin_S_[(next_ + i) % slots_] = {i, number};
  next_ = (next_ + handed_out_) % slots_;
  held_ = std::min(held_ + handed_out_, capacity_);
  handed_out_ = 0;
}

void DeviceEpisodeBuffer::draw(Rng& rng) {
  if (held_ == 0) throw std::logic_error("a sample of an empty replay buffer");
  std::vector<std::int64_t> slots(sampled_slot_B_.size(0));
  for (std::int64_t& slot : slots) slot = slot_of(rng.below(static_cast<std::uint32_t>(held_)));
  upload(slots, sampled_slot_B_);
}

const EpisodeBatch& DeviceEpisodeBuffer::gather() {
  const c10::cuda::CUDAGuard guard(device_);
  gather_episodes(
      store_,
      {static_cast<int>(sampled_slot_B_.size(0)), sampled_slot_B_.data_ptr<std::int64_t>(), task_.num_actions(),
       batch_.observation.data_ptr(), batch_.previous_action_BT1.data_ptr<std::int64_t>(),
       batch_.previous_reward_BT1.data_ptr<float>(), batch_.action_BT.data_ptr<std::int64_t>(),
       batch_.reward_BT.data_ptr<float>(), batch_.terminated_BT.data_ptr<float>(),
       batch_.steps_B.data_ptr<std::int64_t>(), batch_.mask_BT.data_ptr<float>()},
      c10::cuda::getCurrentCUDAStream(device_.index()));
  return batch_;
}

const EpisodeBatch& DeviceEpisodeBuffer::sample(Rng& rng) {
  draw(rng);
  return gather();
}

torch::Tensor DeviceEpisodeBuffer::held_slots() const {
  const torch::Tensor slots = torch::empty({held_}, torch::kInt64);
  for (std::int64_t i = 0; i < held_; ++i) slots.data_ptr<std::int64_t>()[i] = slot_of(i);
  return slots;
}

EpisodeLog DeviceEpisodeBuffer::log() const {
  const torch::Tensor slots = held_slots(), on_device = slots.to(device_);
  const torch::Tensor action = action_.index_select(0, on_device).cpu(),
                      steps = steps_.index_select(0, on_device).cpu();
  EpisodeLog log;
  for (std::int64_t i = 0; i < held_; ++i) {
    const Origin origin = origin_S_[slots.data_ptr<std::int64_t>()[i]];
    log.add(origin.environment, origin.number,
            {action.data_ptr<std::int32_t>() + i * action.size(1),
             static_cast<std::size_t>(steps.data_ptr<std::int32_t>()[i])});
  }
  return log;
}

// Restores into the first slots, in place of everything there.
void DeviceEpisodeBuffer::keep(const std::vector<Episode>& episodes) {
  const auto count = static_cast<std::int64_t>(episodes.size());
  const auto first = [count](const torch::Tensor& on_device) {
    std::vector<std::int64_t> shape = on_device.sizes().vec();
    shape[0] = count;
    return torch::zeros(shape, on_device.dtype());
  };
  const torch::Tensor observation = first(observation_), action = first(action_), reward = first(reward_),
                      steps = first(steps_), terminated = first(terminated_), success = first(success_);
  for (std::int64_t i = 0; i < count; ++i) {
    const Episode& episode = episodes[i];
    std::memcpy(observation[i].data_ptr(), episode.observations.data(), episode.observations.size());
    std::ranges::copy(episode.actions, action[i].data_ptr<std::int32_t>());
    std::ranges::copy(episode.rewards, reward[i].data_ptr<float>());
    steps.data_ptr<std::int32_t>()[i] = static_cast<std::int32_t>(episode.steps());
    terminated.data_ptr<std::uint8_t>()[i] = episode.end == End::kTerminated;
    success.data_ptr<std::uint8_t>()[i] = episode.success;
    origin_S_[i] = {episode.environment, episode.number};
  }
  const auto upload_first = [count](torch::Tensor& on_device, const torch::Tensor& rows) {
    on_device.narrow(0, 0, count).copy_(rows);
  };
  upload_first(observation_, observation), upload_first(action_, action), upload_first(reward_, reward);
  upload_first(steps_, steps), upload_first(terminated_, terminated), upload_first(success_, success);
  held_ = count;
  next_ = count % slots_;
  handed_out_ = 0;
}

void DeviceEpisodeBuffer::visit_state(StateArchive& archive, VecEnv& environments) {
  EpisodeLog log = archive.restoring() ? EpisodeLog() : this->log();
  log.visit_state(archive);
  if (!archive.restoring()) return;
  if (log.episodes() > capacity_) archive.refuse("steps", "there are more episodes than this replay holds");
  std::vector<Episode> episodes;
  log.play(environments, EpisodeLog::Ends::kAll, archive, [&](Episode e) { episodes.push_back(std::move(e)); });
  for (const Episode& episode : episodes)
    if (episode.steps() > task_.max_episode_steps) archive.refuse("steps", "an episode is longer than the task allows");
  keep(episodes);
}

}  // namespace engram
