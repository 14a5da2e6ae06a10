// VecEnv: N environments of one task, stepped together. Shapes: observation [N, ...], reward [N], end [N].
//
// Environment i plays episodes 0, 1, 2 ... of the streams (seed, purpose, i, episode): the bytes do not depend on the
// number of threads. step() never resets: the last observation of an episode stays until reset_finished(), or another
// reset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "envs/registry.h"
#include "envs/task.h"

namespace engram {

class VecEnv {
 public:
  virtual ~VecEnv() = default;

  virtual const TaskInfo& info() const = 0;
  virtual int size() const = 0;  // N

  // Starts episode `first_episode` in every environment.
  virtual void reset_all(std::uint32_t first_episode = 0) = 0;
  // Starts episode 0 in every environment; from now on, environment i draws from the streams of environment
  // `first_environment` + i.
  virtual void move_streams(std::uint32_t first_environment) = 0;
  // One step of every environment with the rows of N actions (envs/action.h); an action outside 0 .. num_actions - 1, a
  // number that is not finite, or a step of an environment whose episode has ended, throws std::invalid_argument and
  // changes nothing.
  virtual void step(std::span<const std::int32_t> action_N) = 0;
  // Starts the next episode in every environment whose episode has ended.
  virtual void reset_finished() = 0;
  // Starts the next episode in every environment i where chosen_N[i] is not 0, whether its episode has ended or not.
  // Throws std::invalid_argument for another size than N.
  virtual void reset_chosen(std::span<const std::uint8_t> chosen_N) = 0;
  // reset_finished() in the environments whose episode has ended, a step in the others: the actions of the former are
  // not taken, but checked as those of the latter.
  virtual void step_or_reset(std::span<const std::int32_t> action_N) = 0;

  // One environment alone: starts its episode `episode`, or takes a step as step() does.
  virtual void reset_row(int row, std::uint32_t episode) = 0;
  virtual void step_row(int row, std::span<const std::int32_t> action) = 0;
  void step_row(int row, std::int32_t action) { step_row(row, std::span(&action, 1)); }

  // Views that stay valid for the life of the object and are rewritten by step and reset.
  virtual std::span<const std::byte> observation_N() const = 0;  // N x info().observation.bytes()
  virtual std::span<const float> reward_N() const = 0;           // of the last step; 0 after a reset
  virtual std::span<const End> end_N() const = 0;                // kNone after a reset
  virtual std::span<const std::uint8_t> success_N() const = 0;   // 1 where the episode so far counts as solved

  // For people: the whole board of one environment, and the name of the phase that it is in.
  virtual void draw(int environment, Canvas& canvas) const = 0;
  virtual std::string phase(int environment) const = 0;
  // What the agent has to remember; none while it sees it, and of tasks that say nothing of it.
  virtual std::optional<Cue> cue(int /*environment*/) const { return {}; }
  // Whether the episode's decision is taken, rightly or wrongly; none of tasks that do not say what that is.
  virtual std::optional<bool> decided(int /*environment*/) const { return {}; }
};

// `seed` is the run's seed: it also fixes what the task draws once for a run (colours = fixed | reference).
// Environment i draws its episodes from the streams of environment `first_environment` + i (rng.h).
// Throws UserError if the task's options contradict each other, std::invalid_argument for num_envs or num_threads < 1.
std::unique_ptr<VecEnv> make_cpu_vec_env(const TaskConfig& task, std::uint64_t seed, Purpose purpose, int num_envs,
                                         int num_threads, std::uint32_t first_environment = 0);

// How many of `num_threads` (>= 1) are worth their hand-over, which costs about as much as stepping 256 environments.
int worthwhile_threads(int num_envs, int num_threads);

}  // namespace engram
