// EpisodeBuffer: replay of whole episodes. Observations are kept in their own type (uint8 stays uint8).
#pragma once

#include <cstdint>
#include <deque>

#include "agents/episode.h"
#include "base/options.h"
#include "base/rng.h"
#include "envs/vec_env.h"
#include "storage/state_archive.h"

namespace engram {

struct ReplayOptions {
  std::int64_t capacity_steps = 1'000'000;  // environment steps kept ...
  std::int64_t minimum_episodes = 1'000;    // ... but never fewer episodes than this
  int batch_episodes = 64;                  // B

  void list_options(OptionList& list);
};

class EpisodeBuffer {
 public:
  EpisodeBuffer(const ReplayOptions& options, const TaskInfo& task);

  // Adds an episode of at least one step; drops the oldest ones beyond the capacity.
  void add(Episode episode);
  // B episodes drawn uniformly, with replacement, on `device`. The buffer must not be empty.
  EpisodeBatch sample(int batch, Rng& rng, torch::Device device) const;
  // The same for chosen episodes (index 0 is the oldest).
  EpisodeBatch gather(const std::vector<std::int64_t>& indices, torch::Device device) const;

  // Restoring plays the episodes again in `environments`, where they were played.
  void visit_state(StateArchive& archive, VecEnv& environments);

  std::int64_t episodes() const { return static_cast<std::int64_t>(episodes_.size()); }
  std::int64_t steps() const { return steps_; }

 private:
  ReplayOptions options_;
  TaskInfo task_;
  std::deque<Episode> episodes_;
  std::int64_t steps_ = 0;
};

}  // namespace engram
