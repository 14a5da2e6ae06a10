// EpisodeLog: episodes as the actions taken in them. The rules give the rest again, byte for byte, at tens of millions
// of steps a second. A checkpoint's replay therefore takes a few bytes a step, and no environment's state has to be
// taken from a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "agents/play/episode.h"
#include "envs/vec/vec_env.h"
#include "storage/tensors/state_archive.h"

namespace engram {

class EpisodeLog {
 public:
  // Of a task with such actions.
  explicit EpisodeLog(const ActionSpec& action) : words_(static_cast<std::size_t>(action.words())) {}

  // Episode `number` of an environment, by the rows of its actions (envs/action.h). log_probs: of its actions; none, as
  // of all others of the log, where they are not kept.
  void add(std::int32_t environment, std::uint32_t number, std::span<const std::int32_t> actions,
           std::span<const float> log_probs = {});

  std::int64_t episodes() const { return static_cast<std::int64_t>(steps_.size()); }

  void visit_state(StateArchive& archive);

  std::int32_t environment(std::size_t episode) const { return environment_[episode]; }
  std::uint32_t number(std::size_t episode) const { return static_cast<std::uint32_t>(number_[episode]); }
  std::int64_t steps(std::size_t episode) const { return steps_[episode]; }
  std::span<const std::int32_t> actions(std::size_t episode) const {
    return {action_.data() + first_[episode] * words_, static_cast<std::size_t>(steps_[episode]) * words_};
  }

  bool keeps_log_probs() const { return !log_prob_.empty(); }
  // None where the log keeps none.
  std::span<const float> log_probs(std::size_t episode) const {
    return log_prob_.empty() ? std::span<const float>()
                             : std::span(log_prob_).subspan(first_[episode], static_cast<std::size_t>(steps_[episode]));
  }

  // Throws UserError through the archive that the log came from unless it is that of the running episodes of
  // environments 0 .. num_envs - 1.
  void check_running(const StateArchive& archive, const TaskInfo& task, std::size_t num_envs) const;

  // Plays all of them again, in order, in the environments where they were played, and passes each to `use`. Throws
  // UserError through the archive that the log came from if these rules do not give such episodes, each of which ends
  // with its last action.
  void play(VecEnv& environments, const StateArchive& archive, const std::function<void(Episode)>& use) const;

 private:
  std::vector<std::int32_t> environment_;
  std::vector<std::int64_t> number_, steps_;
  std::size_t words_;                 // of an action
  std::vector<std::int32_t> action_;  // rows of all episodes, one after the other
  std::vector<float> log_prob_;       // likewise, or none
  std::vector<std::size_t> first_;    // an episode's first action
};

}  // namespace engram
