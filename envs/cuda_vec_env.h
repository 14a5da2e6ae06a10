// CudaVecEnv: N environments of one task on a GPU, stepped together; the rules of VecEnv, byte for byte the same
// observations, rewards, ends, successes and random streams. Shapes: observation [N, ...], reward [N], end [N].
//
// Everything stays in device memory. What takes a stream is queued on it, never waits, and may be captured in a CUDA
// graph; calls on different streams must be ordered by the caller. The addresses stay the same for the life of the
// object (observations: until observe_into), so that a graph can be replayed.
// Errors: std::runtime_error for a failed CUDA call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "envs/registry.h"
#include "envs/task.h"

namespace engram {

class CudaVecEnv {
 public:
  virtual ~CudaVecEnv() = default;

  virtual const TaskInfo& info() const = 0;
  virtual int size() const = 0;  // N

  // Starts episode `first_episode` in every environment.
  virtual void reset_all(std::uint32_t first_episode, cudaStream_t stream) = 0;
  // One step of every environment whose episode is under way; one whose episode has ended stays as it is, reward, end
  // and observation included, until it is reset. action_N: int32 [N], device memory. An action outside
  // 0 .. num_actions - 1 changes nothing in its environment and is kept for check().
  virtual void step(const std::int32_t* action_N, cudaStream_t stream) = 0;
  // Starts the next episode in every environment whose episode has ended.
  virtual void reset_finished(cudaStream_t stream) = 0;
  // Observations go to `observation_N` from now on: device memory of N x info().observation.bytes(), 16-byte aligned,
  // owned by the caller. The current ones are written there at once, on `stream`. Graphs captured before keep writing
  // to the old place.
  virtual void observe_into(void* observation_N, cudaStream_t stream) = 0;

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

  // The snapshot of snapshot.h, taken and restored after all work on the device. VecEnv's and this class's can be
  // exchanged. restore() throws std::invalid_argument for a snapshot of another task, other options or another N.
  virtual std::vector<std::byte> snapshot() const = 0;
  virtual void restore(std::span<const std::byte> snapshot) = 0;
};

// On the current device; every environment is at the start of episode 0. `seed` and errors as in make_cpu_vec_env.
std::unique_ptr<CudaVecEnv> make_cuda_vec_env(const TaskConfig& task, std::uint64_t seed, Purpose purpose,
                                              int num_envs);

}  // namespace engram
