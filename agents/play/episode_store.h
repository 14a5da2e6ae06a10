// EpisodeStore: whole episodes, in memory of the device where they are played and learnt from: a replay, or what is
// played in an iteration of a learner on policy. Observations keep their own type (uint8 stays uint8); an episode takes
// as many rows as it has observations.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "agents/play/episode.h"
#include "agents/play/recorded_env.h"
#include "agents/run/config/options.h"
#include "agents/study/episode_log.h"
#include "base/rng.h"
#include "envs/vec/episode_rows.h"
#include "envs/vec/vec_env.h"
#include "storage/tensors/state_archive.h"

namespace engram {

class EpisodeStore {
 public:
  // For no more than `most_steps` steps that are ever added. Takes all of its memory at once: c10::OutOfMemoryError
  // where a GPU is too small.
  EpisodeStore(const ReplayOptions& options, const TaskInfo& task, std::int64_t most_steps, torch::Device device);
  // Of a learner on policy, for up to `most_steps` steps between two calls of clear(); keeps log-probabilities as well,
  // which episodes that are added must have, and what put_advantages() gives them.
  static EpisodeStore of_iterations(const TaskInfo& task, std::int64_t most_steps, torch::Device device);

  // Keeps ended episodes out of the rings in which they were recorded, on this device; drops the oldest ones beyond the
  // capacity. On the current stream.
  void add(const RecordingMemory& recording, const std::vector<RecordedEpisode>& episodes);
  // The same of an episode in the host's memory, of at least one step.
  void add(const Episode& episode);

  // B episodes drawn uniformly, with replacement. T is the longest episode's number of steps, or `least_steps` where
  // these are more; on a GPU rounded up to an eighth of the task's longest, so that batches come in few sizes, whose
  // tensors keep their addresses and are overwritten by the next batch. On the current stream, without waiting. There
  // must be an episode.
  EpisodeBatch sample(Rng& rng, std::int64_t least_steps = 1);
  // T of the batch that sample(rng) would return; 0 where there is no episode.
  std::int64_t sampled_steps(Rng rng) const;
  // The same for chosen episodes (index 0 is the oldest). Where these are fewer than `least_episodes`, empty ones
  // follow, of which only padding is there.
  EpisodeBatch gather(const std::vector<std::int64_t>& indices, std::int64_t least_steps = 1,
                      std::int64_t least_episodes = 1);
  // The same of so many steps, which no chosen episode has more of, and so many episodes.
  EpisodeBatch gather_as(const std::vector<std::int64_t>& indices, std::int64_t steps, std::int64_t episodes);
  // T of gather(indices).
  std::int64_t gathered_steps(const std::vector<std::int64_t>& indices) const { return batch_steps(indices, 1); }

  // Of of_iterations(): value_BT and advantage_BT (float32 [B, T] on the device) become those of the steps of the
  // chosen episodes, the first of B; batches have them from now on.
  void put_advantages(const std::vector<std::int64_t>& indices, const torch::Tensor& value_BT,
                      const torch::Tensor& advantage_BT);
  void clear();

  // Keeps a log's episodes instead of those that are there, by playing them again in environments like those in which
  // they were played; errors as of EpisodeLog::play.
  void keep(const EpisodeLog& log, VecEnv& environments, const StateArchive& archive);

  // Restoring plays the episodes again in the environments that are made; null: in none, the state keeps all of them.
  // Waits for the device.
  void visit_state(StateArchive& archive, const std::function<std::unique_ptr<VecEnv>()>& make_environments);

  std::int64_t episodes() const { return static_cast<std::int64_t>(episodes_.size()); }
  // Where an episode was played, and as which of its environment's episodes.
  struct Name {
    std::int32_t environment;
    std::uint32_t number;
  };
  Name name(std::int64_t index) const {
    const Entry& entry = episodes_.at(static_cast<std::size_t>(index));
    return {entry.environment, entry.number};
  }
  std::int64_t steps() const { return steps_; }
  std::int64_t steps_of(std::int64_t index) const { return episodes_.at(static_cast<std::size_t>(index)).rows.steps; }

 private:
  EpisodeStore(const ReplayOptions& options, const TaskInfo& task, std::int64_t rows, torch::Device device,
               bool on_policy);

  struct Entry {
    StoredEpisode rows;
    std::int32_t environment;
    std::uint32_t number;
  };

  // Makes room for an episode after the newest one and lists it; returns its first row.
  std::int64_t append(std::int32_t steps, End end, std::int32_t environment, std::uint32_t number);
  void drop_oldest();
  std::vector<std::int64_t> draw(Rng& rng) const;
  std::int64_t batch_steps(const std::vector<std::int64_t>& indices, std::int64_t least_steps) const;
  EpisodeBatch batch_of(std::int64_t batch, std::int64_t steps);
  EpisodeBatch new_batch(std::int64_t batch, std::int64_t steps) const;
  std::vector<StoredEpisode> chosen(const std::vector<std::int64_t>& indices) const;
  void visit_advantages(StateArchive& archive);
  void visit_whole_episodes(StateArchive& archive, const EpisodeLog& log);
  torch::Tensor upload(const void* data, std::size_t bytes) const;
  void gather_into(const EpisodeBatch& batch, const std::vector<StoredEpisode>& episodes) const;
  // Where there is GPU support.
  void keep_on_gpu(const RecordingMemory& recording, const std::vector<KeptEpisode>& kept) const;
  void gather_on_gpu(const EpisodeGather& batch, const std::vector<StoredEpisode>& episodes) const;
  void put_advantages_on_gpu(const EpisodeAdvantages& advantages, const std::vector<StoredEpisode>& episodes) const;

  const ReplayOptions options_;
  const TaskInfo task_;
  const torch::Device device_;
  const std::int64_t capacity_rows_;
  torch::Tensor observation_, action_, reward_;
  torch::Tensor log_prob_, value_, advantage_;  // of of_iterations()
  EpisodeRows rows_;
  std::deque<Entry> episodes_;  // in the order of their rows, which go round
  std::int64_t next_row_ = 0;
  std::int64_t steps_ = 0;
  std::list<EpisodeBatch> batches_;  // of a GPU, of different shapes, the last used first
};

}  // namespace engram
