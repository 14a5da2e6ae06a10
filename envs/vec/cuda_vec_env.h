// CudaVecEnv: N environments of one task on a GPU, stepped together; the rules of VecEnv, byte for byte the same
// observations, rewards, ends, successes and random streams. Shapes: observation [N, ...], reward [N], end [N].
//
// Everything stays in device memory. What takes a stream is queued on it, never waits, and may be captured in a CUDA
// graph; calls on different streams must be ordered by the caller. The addresses stay the same for the life of the
// object, so that a graph can be replayed.
// Errors: std::runtime_error for a failed CUDA call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "envs/registry.h"
#include "envs/task.h"
#include "envs/vec/episode_rows.h"

namespace engram {

class CudaVecEnv {
 public:
  virtual ~CudaVecEnv() = default;

  virtual const TaskInfo& info() const = 0;
  virtual int size() const = 0;  // N

  // Starts episode `first_episode` in every environment.
  virtual void reset_all(std::uint32_t first_episode, cudaStream_t stream) = 0;
  // As VecEnv::move_streams(). Not to be captured: the number is read from the host's memory at the time of the call.
  virtual void move_streams(std::uint32_t first_environment, cudaStream_t stream) = 0;
  // One step of every environment whose episode is under way; one whose episode has ended stays as it is, reward, end
  // and observation included, until it is reset. action_N: the rows of N actions (envs/action.h), device memory. An
  // action outside 0 .. num_actions - 1, or a number that is not finite, changes nothing in its environment and is kept
  // for check().
  virtual void step(const std::int32_t* action_N, cudaStream_t stream) = 0;
  // Starts the next episode in every environment whose episode has ended.
  virtual void reset_finished(cudaStream_t stream) = 0;
  // Starts the next episode in every environment i where chosen_N[i] is not 0 (uint8 [N], device memory), whether its
  // episode has ended or not.
  virtual void reset_chosen(const std::uint8_t* chosen_N, cudaStream_t stream) = 0;
  // Rollouts. Everything in device memory; an environment is recorded in its ring of `recorder` (episode_rows.h), and
  // fresh_N[i] (uint8 [N]) becomes 1 where an episode begins.
  // Begins episode number_N[i] in every environment.
  virtual void restart(const std::uint32_t* number_N, const EpisodeRecorder& recorder, std::uint8_t* fresh_N,
                       cudaStream_t stream) = 0;
  // One step of every environment whose action is not kNoAction; where it ends the episode, the next one begins at
  // once: reward, end and observation are then those of the beginning. An action out of range: as in step().
  // probabilities_NA: [N, ActionSpec::policy_numbers()], what the actions were drawn from (log_probability()); null:
  // none.
  virtual void play(const std::int32_t* action_N, const float* probabilities_NA, const EpisodeRecorder& recorder,
                    std::uint8_t* fresh_N, cudaStream_t stream) = 0;

  // Device memory, rewritten by step and reset.
  virtual const void* observation_N() const = 0;
  virtual const float* reward_N() const = 0;          // of the last step; 0 after a reset
  virtual const End* end_N() const = 0;               // kNone after a reset
  virtual const std::uint8_t* success_N() const = 0;  // 1 where the episode so far counts as solved

  // What a step reads and writes of device memory, for each environment: state in and out, action, reward, end in and
  // out, success, observation.
  virtual std::int64_t step_bytes() const = 0;

  // Waits for `stream`; throws std::invalid_argument if a step met an action out of range since the last check. It
  // names the first such environment and, of its actions, the least as an unsigned number.
  virtual void check(cudaStream_t stream) = 0;
};

// Makes the environments of one task; its options are valid, and num_envs >= 1.
using CudaEnvMaker = std::unique_ptr<CudaVecEnv> (*)(const AnyTaskOptions& options, std::uint64_t seed, Purpose purpose,
                                                     int num_envs, std::uint32_t first_environment);

// Of a task by its rules. Defined in cuda_vec_env.cuh and instantiated once for each task, in a file of its own.
template <class Task>
std::unique_ptr<CudaVecEnv> make_cuda_vec_env_of(const AnyTaskOptions& options, std::uint64_t seed, Purpose purpose,
                                                 int num_envs, std::uint32_t first_environment);

// For a task that add_task has added.
void add_cuda_task(const std::string& task, CudaEnvMaker maker);

// On the current device; every environment is at the start of episode 0. `seed`, `first_environment` and errors as in
// make_cpu_vec_env; UserError for a task that was added without its maker.
std::unique_ptr<CudaVecEnv> make_cuda_vec_env(const TaskConfig& task, std::uint64_t seed, Purpose purpose, int num_envs,
                                              std::uint32_t first_environment = 0);

}  // namespace engram
