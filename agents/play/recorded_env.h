// RecordedEnv: N environments that an agent plays, on the device where the agent acts, each recorded as it is stepped.
// A row whose episode ends begins its next one at once, whatever the others do: episodes have their own lengths.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "envs/vec/episode_rows.h"
#include "envs/vec/vec_env.h"

namespace engram {

// What environments and policy exchange: N rows in memory of one device, at addresses that stay.
struct ActingRows {
  torch::Tensor observation_N;  // o_t: uint8 or float32 [N, ...]
  torch::Tensor reward_N;       // r_{t-1}: float32 [N]; 0 at an episode's beginning
  torch::Tensor fresh_N;        // uint8 [N]: 1 where an episode begins; whoever acts sets it to 0
  // a_{t-1}, where the policy then writes a_t: int32 [N], or of a continuous action the bits of its numbers, int32
  // [N, numbers] (envs/action.h).
  torch::Tensor action_N;

  std::int64_t size() const { return action_N.size(0); }
};

// An ended episode that is still in its environment's ring.
struct RecordedEpisode : EndedEpisode {
  std::int32_t environment;
};

// Rows for the actions of N environments, all 0.
torch::Tensor action_rows(const ActionSpec& action, std::int64_t size, torch::Device device);
// The numbers of rows of continuous actions, float32 of the same shape and memory.
inline torch::Tensor numbers_of(const torch::Tensor& action_N) { return action_N.view(torch::kFloat32); }
// Views of observations [N, ...] and rewards [N] that `size` environments on `device` rewrite, and rows of actions and
// fresh episodes of their own.
ActingRows rows_over(const TaskInfo& task, std::int64_t size, const void* observation_N, const float* reward_N,
                     torch::Device device);
ActingRows rows_of(const VecEnv& environments);

// The memory of an EpisodeRecorder.
class RecordingMemory {
 public:
  // Room for `between_looks` steps of every environment before somebody looks.
  RecordingMemory(const TaskInfo& task, int num_envs, int between_looks, torch::Device device);

  const EpisodeRecorder& view() const { return view_; }
  // All environments as if nothing had been played.
  void clear();
  // The episodes that have ended since the last look, environment by environment, in order. Waits for the device. What
  // is recorded of them stays until as many steps as may lie between two looks have been taken.
  std::vector<RecordedEpisode> look();
  // The actions of ended episodes that are still recorded, row by row. Waits for the device.
  std::vector<std::vector<std::int32_t>> actions(std::span<const RecordedEpisode> episodes) const;
  // Of the running episodes, on the host; as of the last look.
  std::span<const std::int32_t> steps_N() const;
  // What was taken in the running episodes so far, environment by environment. Waits for the device.
  struct Taken {
    std::vector<std::int32_t> actions;
    std::vector<float> log_probs;
    friend bool operator==(const Taken&, const Taken&) = default;
  };
  std::vector<Taken> running() const;
  // Instead of the running episodes' log-probabilities, whose steps these are.
  void put_log_probs(std::span<const Taken> running_N);

 private:
  // f(environment, step, where it stands in the rings) of every step of the running episodes.
  template <class Visit>
  void visit_running(Visit visit) const;

  torch::Tensor observation_, action_, reward_, log_prob_, running_, ended_;
  torch::Tensor progress_2N_;  // int32: steps of the running episode, episodes ended
  torch::Tensor seen_2N_;      // the same on the host, of the last look
  torch::Tensor seen_ended_;   // of a GPU: ended_ on the host, pinned
  EpisodeRecorder view_;
};

class RecordedEnv {
 public:
  virtual ~RecordedEnv() = default;

  virtual const TaskInfo& info() const = 0;
  const ActingRows& rows() const { return rows_; }
  RecordingMemory& recording() { return recording_; }
  const RecordingMemory& recording() const { return recording_; }
  int size() const { return static_cast<int>(rows_.size()); }
  torch::Device device() const { return rows_.action_N.device(); }

  // Begins episode number_N[i] in environment i; what was recorded is forgotten. On the current stream.
  void restart(std::span<const std::uint32_t> number_N);
  // A step of every environment with rows().action_N, kNoAction leaving one as it is; where it ends an episode the next
  // one begins. On the current stream; on a GPU without waiting, and a graph may capture it. probabilities_NA: what the
  // actions were drawn from, float32 [N, ActionSpec::policy_numbers()] at an address that stays; undefined: no policy
  // took them.
  virtual void step(const torch::Tensor& probabilities_NA) = 0;
  void step() { step(torch::Tensor()); }
  // Whether an episode's number and its actions give it again.
  virtual bool plays_again() const { return true; }
  // Steps of single environments since the last call that only began an episode, whose actions counted for nothing.
  virtual std::int64_t unrecorded_steps() { return 0; }

 protected:
  RecordedEnv(const TaskInfo& task, int num_envs, int between_looks, torch::Device device)
      : recording_(task, num_envs, between_looks, device) {}
  virtual void begin(std::span<const std::uint32_t> number_N) = 0;

  RecordingMemory recording_;
  ActingRows rows_;
};

class CudaVecEnv;

// Environments of the CPU, or of the current GPU, which nobody else steps.
std::unique_ptr<RecordedEnv> make_recorded_env(std::unique_ptr<VecEnv> environments, int between_looks);
std::unique_ptr<RecordedEnv> make_recorded_env(std::unique_ptr<CudaVecEnv> environments, int between_looks);
// Those of a task on the current GPU (make_cuda_vec_env). Throws std::logic_error in a build without GPU support.
std::unique_ptr<RecordedEnv> make_recorded_cuda_env(const TaskConfig& task, std::uint64_t seed, Purpose purpose,
                                                    int num_envs, int between_looks,
                                                    std::uint32_t first_environment = 0);

}  // namespace engram
