// Experience: what a learner learns from, and when. Episodes go in as they end; out come updates, each of one batch.
//
//   Replay      (replay.h)      of the last so many episodes, drawn again and again; every step pays for some updates
//   Iterations  (iterations.h)  of a learner on policy: the episodes since the last iteration, each learnt from in
//                               every pass, then forgotten
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "agents/learn/learner.h"
#include "agents/play/episode_store.h"
#include "agents/play/recorded_env.h"
#include "agents/run/config/config.h"
#include "agents/run/training/run_share.h"
#include "agents/run/training/train_status.h"
#include "envs/vec/vec_env.h"
#include "ranks/ranks.h"
#include "storage/tensors/state_archive.h"

namespace engram {

// What all ranks have collected, which each of them knows, so that they make as many updates and, on GPUs, launch,
// record and replay the same ones. As it stands: of a rank that is alone.
struct Collected {
  std::int64_t fewest_episodes = std::numeric_limits<std::int64_t>::max(), most_episodes = 0;  // of a rank
  std::int64_t batch_steps = 1;  // T of any rank's next batch, at most
};

class Experience {
 public:
  virtual ~Experience() = default;

  // Episodes of this rank that have ended, out of the rings in which they were recorded. On the current stream.
  virtual void add(const RecordingMemory& recording, const std::vector<RecordedEpisode>& episodes) = 0;
  // An episode of this many steps has ended, of whichever rank; the policy played it, or it was played at random.
  virtual void count(std::int64_t steps, double episode_return) = 0;

  // Whether what all ranks have played pays for an update; the same for all of them.
  virtual bool owes_update() const = 0;
  // Whether this rank has the episodes that its batches take. Updates begin where all ranks have.
  virtual bool ready() const = 0;
  // Where the next update is the first of an iteration: of the episodes that it learns from.
  virtual std::optional<IterationEpisodes> next_iteration() const { return {}; }
  // What other ranks have to know of this rank's next batch: its T, or of an iteration the longest one; 1 where it may
  // be any.
  virtual std::int64_t next_batch_steps() const = 0;
  // One update of the learner. progress: how much of the run is over, 0 to 1.
  virtual NamedScalars update(Learner& learner, const Collected& all, double progress) = 0;

  // Environment steps whose updates are not done yet.
  virtual double unlearnt_steps() const = 0;
  const EpisodeStore& store() const { return store_; }
  EpisodeStore& store() { return store_; }

  // What all ranks have alike.
  virtual void visit_common_state(StateArchive& archive) = 0;
  // This rank's: its episodes, which restoring plays again in the environments that are made, and its draws. Null: in
  // none; the state keeps the episodes' observations.
  virtual void visit_own_state(StateArchive& archive,
                               const std::function<std::unique_ptr<VecEnv>()>& make_environments);
  // Instead of that, where another number of ranks had saved: goes on with what these episodes were to them, dealt
  // anew; random draws are of stream `stream` from now on. Errors as of EpisodeLog::play.
  virtual void take_over(const EpisodeLog& episodes, VecEnv& environments, const StateArchive& archive,
                         std::uint32_t stream) = 0;

 protected:
  // rank: of this program among those that learn together.
  Experience(EpisodeStore store, std::uint64_t seed, int rank);
  // The random numbers of batches: of this rank, in their stream `stream`.
  Rng draws_of(std::uint32_t stream) const { return {seed_, Purpose::kReplay, rank_, stream}; }

  EpisodeStore store_;
  const std::uint64_t seed_;
  const std::uint32_t rank_;
  Rng random_;
};

// What the config's learner learns from, on `device`.
std::unique_ptr<Experience> make_experience(const Config& config, const RunShare& share, const Ranks& ranks,
                                            torch::Device device);

}  // namespace engram
