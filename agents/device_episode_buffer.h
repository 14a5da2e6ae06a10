// DeviceEpisodeBuffer: replay of whole episodes in device memory, recorded there step by step (episode_store.h) and
// sampled into tensors that keep their addresses, so that recording and learning can be captured in CUDA graphs.
//
//   buffer.slots_for(N) -> begin_episodes, record_step ... on buffer.store() -> buffer.add_recorded(n)
//   buffer.sample(rng)
#pragma once

#include <cstdint>
#include <vector>

#include "agents/episode.h"
#include "agents/episode_log.h"
#include "agents/episode_buffer.h"
#include "base/rng.h"
#include "kernels/episode_store/episode_store.h"

namespace engram {

class DeviceEpisodeBuffer {
 public:
  // Holds max(minimum_episodes, capacity_steps / max_episode_steps) episodes, besides up to `max_recorded` that are
  // being recorded. Batches have batch_episodes episodes. Throws c10::OutOfMemoryError where the device is too small.
  DeviceEpisodeBuffer(const ReplayOptions& options, const TaskInfo& task, int max_recorded, torch::Device device);

  // Where episodes are recorded; its addresses stay.
  const EpisodeStore& store() const { return store_; }

  // Slots for the next `count` <= max_recorded episodes: int64 [count] on the device, at the same address every time,
  // written on the current stream without waiting. No episode that can be sampled is in them. They replace slots that
  // were handed out before and whose episodes were not added.
  torch::Tensor slots_for(int count);
  // To be called when the episodes in the slots handed out last are complete: in order, those with this number of
  // environments 0, 1, 2 ... Beyond the capacity the oldest are dropped.
  void add_recorded(std::uint32_t number);

  // batch_episodes episodes, drawn as EpisodeBuffer::sample draws them, padded to T = max_episode_steps. On the current
  // stream, without waiting. The tensors are the buffer's own and hold this batch until the next one. At least one
  // episode must have been added.
  const EpisodeBatch& sample(Rng& rng);
  // The two halves of sample, for a captured graph: which episodes (host and device), and their data (one kernel).
  void draw(Rng& rng);
  const EpisodeBatch& gather();
  // The tensors that sample() fills.
  const EpisodeBatch& batch() const { return batch_; }

  // Restoring plays the episodes again in `environments`, where they were played. On the current stream; waits for it.
  void visit_state(StateArchive& archive, VecEnv& environments);

  std::int64_t episodes() const { return held_; }
  std::int64_t capacity() const { return capacity_; }  // in episodes

 private:
  std::int64_t slot_of(std::int64_t position) const;
  torch::Tensor held_slots() const;
  EpisodeLog log() const;
  void keep(const std::vector<Episode>& episodes);
  torch::Tensor upload(const std::vector<std::int64_t>& slots, const torch::Tensor& to) const;

  TaskInfo task_;
  torch::Device device_;
  std::int64_t capacity_;
  std::int64_t slots_;     // capacity and max_recorded
  std::int64_t next_ = 0;  // the slot after the newest episode
  std::int64_t held_ = 0;  // episodes that can be sampled, in the slots before next_
  std::int64_t handed_out_ = 0;
  struct Origin {
    std::int32_t environment;
    std::uint32_t number;
  };
  std::vector<Origin> origin_S_;
  torch::Tensor observation_, action_, reward_, steps_, terminated_, success_;
  EpisodeStore store_;
  torch::Tensor recorded_slot_N_, sampled_slot_B_;
  EpisodeBatch batch_;
};

}  // namespace engram
