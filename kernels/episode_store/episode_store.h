// Replay of whole episodes in device memory: N environments record into slots, one launch a step, and batches of slots
// are gathered, one launch a batch.
//
// An episode of T steps has T + 1 observations; row t of a slot holds o_t, a_t and r_t, and o_T follows the last row.
// Dimensions: S slots, M = max_steps, N environments, B episodes of a batch. Everything is contiguous; an observation
// is `row_bytes` bytes of any type. All pointers are device memory. No output overlaps an input. All work is queued on
// `stream`; nothing synchronises; the same input gives the same bits; every call may be captured in a CUDA graph.
// Errors: std::runtime_error for sizes below 1 or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace engram {

// Owned by the caller. Slots that no episode was begun in may hold anything.
struct EpisodeStore {
  std::int64_t slots;
  std::int64_t max_steps;
  std::int64_t row_bytes;
  std::uint8_t* observation;  // [S, M + 1, row_bytes], 4-byte aligned
  std::int32_t* action_SM;
  float* reward_SM;
  std::int32_t* steps_S;       // recorded so far
  std::uint8_t* terminated_S;  // 1: the last step ended the episode by termination
  std::uint8_t* success_S;     // of the ended episode
};

// Who records where: environment i records into slot slot_N[i] while running_N[i] is 1.
struct EpisodeRecorders {
  int size;                    // N
  const std::int64_t* slot_N;  // all different, each in 0 .. S - 1
  std::uint8_t* running_N;
};

// Begins an episode in every environment's slot: no steps, no end, `observation_N` [N, row_bytes] as its first
// observation; running_N becomes 1.
void begin_episodes(const EpisodeStore& store, const EpisodeRecorders& recorders, const void* observation_N,
                    cudaStream_t stream);

struct EpisodeStep {
  const std::int32_t* action_N;
  const float* reward_N;
  const std::uint8_t* end_N;  // 0 the episode goes on, 1 terminated, 2 truncated
  const std::uint8_t* success_N;
  const void* observation_N;  // [N, row_bytes], the one that follows the action
};

// Appends one step to the slot of every environment that is running; where it ended the episode, keeps how and clears
// running_N. Other environments' inputs do not matter. A slot that holds max_steps takes no more.
void record_step(const EpisodeStore& store, const EpisodeRecorders& recorders, const EpisodeStep& step,
                 cudaStream_t stream);

// B episodes padded to T = max_steps, in the alignment of a learner's batch: row t of T + 1 holds o_t, a_{t-1} and
// r_{t-1}. Everything after an episode's end is zero, except for previous_action: num_actions stands for "none" there
// and in row 0.
struct EpisodeGather {
  int size;                    // B
  const std::int64_t* slot_B;  // each in 0 .. S - 1
  std::int64_t num_actions;
  void* observation;  // [B, T + 1, row_bytes], 16-byte aligned
  std::int64_t* previous_action_BT1;
  float* previous_reward_BT1;
  std::int64_t* action_BT;
  float* reward_BT;
  float* terminated_BT;  // 1 at the last step of an episode that terminated
  std::int64_t* steps_B;
  float* mask_BT;  // 1 for t < steps
};

void gather_episodes(const EpisodeStore& store, const EpisodeGather& batch, cudaStream_t stream);

}  // namespace engram
