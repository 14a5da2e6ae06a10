// EpisodeLog: episodes as the actions taken in them. The rules give the rest again, byte for byte, at tens of millions
// of steps a second. A checkpoint's replay therefore takes a few bytes a step, and no environment's state has to be
// taken from a file.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "agents/episode.h"
#include "envs/vec_env.h"
#include "storage/state_archive.h"

namespace engram {

class EpisodeLog {
 public:
  // Episode `number` of an environment.
  void add(std::int32_t environment, std::uint32_t number, std::span<const std::int32_t> actions);
  void add(const Episode& episode) { add(episode.environment, episode.number, episode.actions); }

  std::int64_t episodes() const { return static_cast<std::int64_t>(steps_.size()); }

  void visit_state(StateArchive& archive);

  enum class Ends {
    kAll,  // every episode ends with its last action
    kNone  // none does: they are under way
  };
  // Plays all of them again, in order, in the environments where they were played, and passes each to `use`. Leaves
  // every environment played in where its last episode leads. Throws UserError through the archive that the log came
  // from if these rules do not give such episodes.
  void play(VecEnv& environments, Ends ends, const StateArchive& archive,
            const std::function<void(Episode)>& use) const;

 private:
  std::vector<std::int32_t> environment_;
  std::vector<std::int64_t> number_, steps_;
  std::vector<std::int32_t> action_;  // of all episodes, one after the other
};

}  // namespace engram
