// Whole episodes as rows of memory, on the CPU and on a GPU alike: recording what N environments play, keeping the
// episodes that have ended, gathering batches of them. Every function handles one row and is written once for both.
//
// An episode of T steps takes T + 1 rows, one after the other: row t < T holds o_t, a_t and r_t, row T holds o_T alone.
// Dimensions: N environments, W rows of an environment's ring, E episodes that may end there between two looks, B
// episodes of a batch, T steps of a batch. Everything is contiguous.
#pragma once

#include <math.h>

#include <cstdint>

#include "base/host_device.h"
#include "base/normal_density.h"
#include "envs/action.h"
#include "envs/task.h"

namespace engram {

// Instead of an action, in its first word: the environment stays as it is, and nothing is recorded. As a number it is
// none (NaN).
inline constexpr std::int32_t kNoAction = -1;

// Rows of any number of episodes; owned by somebody else.
struct EpisodeRows {
  std::int64_t row_bytes;     // of an observation
  std::uint8_t* observation;  // [rows, row_bytes], 4-byte aligned
  std::int32_t* action;       // [rows, words of an action] (envs/action.h)
  float* reward;              // [rows]
  float* log_prob;            // [rows]: of the action, to the policy that took it; null: not kept
  // What a learner on policy makes of the steps (agents/play/episode.h), [rows]; null: nothing.
  float* value = nullptr;
  float* advantage = nullptr;
  std::int32_t action_numbers = 0;  // of a continuous action; 0: actions are discrete

  HOST_DEVICE std::uint8_t* observation_at(std::int64_t row) const { return observation + row * row_bytes; }
  HOST_DEVICE std::int32_t action_words() const { return action_numbers == 0 ? 1 : action_numbers; }
  HOST_DEVICE std::int32_t* action_at(std::int64_t row) const { return action + row * action_words(); }
  HOST_DEVICE void put_action(std::int64_t row, const std::int32_t* words) const {
    for (std::int32_t i = 0; i < action_words(); ++i) action_at(row)[i] = words[i];
  }
};

// An episode that has ended, in its environment's ring.
struct EndedEpisode {
  double total_reward;   // undiscounted
  std::int32_t first;    // row of the ring
  std::int32_t steps;    // T
  std::uint32_t number;  // which episode of its environment it was, from 0 on
  End end;
  std::uint8_t success;
};

// The episode that is under way in an environment.
struct RunningEpisode {
  double total_reward;
  std::int32_t first, next;  // rows of the ring: its first, and that of the next observation
};

// What N environments play goes into N rings of W rows each.
struct EpisodeRecorder {
  std::int32_t ring;  // W: an episode of full length, and what is played between two looks, with the last observations
  std::int32_t most_ended;  // E
  EpisodeRows rows;         // [N, W]
  RunningEpisode* running_N;
  std::int32_t* steps_N;  // of the running episodes
  std::int32_t* ended_N;  // episodes in ended_NE; whoever has read them sets it to 0
  EndedEpisode* ended_NE;

  HOST_DEVICE std::int32_t after(std::int32_t row) const { return row + 1 == ring ? 0 : row + 1; }
  HOST_DEVICE std::int64_t index(int i, std::int32_t row) const { return static_cast<std::int64_t>(i) * ring + row; }
};

// Environment i begins an episode. Returns the row of `rows` that its first observation belongs in.
HOST_DEVICE inline std::int64_t begin_episode(const EpisodeRecorder& recorder, int i) {
  RunningEpisode& running = recorder.running_N[i];
  running.first = running.next;
  running.total_reward = 0;
  recorder.steps_N[i] = 0;
  return recorder.index(i, running.next);
}

// Logarithm of the probability, or of a continuous action of the density, of an action that was drawn from `policy`, of
// ActionSpec::policy_numbers(); null: 0, of an action that no policy took.
HOST_DEVICE inline float log_probability(const EpisodeRows& rows, const float* policy, const std::int32_t* action) {
  if (policy == nullptr) return 0;
  if (rows.action_numbers == 0) return logf(policy[*action]);
  float sum = 0;
  for (std::int32_t i = 0; i < rows.action_numbers; ++i)
    sum += log_normal_density(number_of(action[i]), policy[i], policy[rows.action_numbers + i]);
  return sum;
}

// Environment i has taken a step of its episode `number`. Returns the row that the observation after it belongs in.
HOST_DEVICE inline std::int64_t record_step(const EpisodeRecorder& recorder, int i, const std::int32_t* action,
                                            float log_prob, float reward, End end, bool success, std::uint32_t number) {
  RunningEpisode& running = recorder.running_N[i];
  const std::int64_t at = recorder.index(i, running.next);
  recorder.rows.put_action(at, action);
  recorder.rows.reward[at] = reward;
  recorder.rows.log_prob[at] = log_prob;
  running.total_reward += reward;
  running.next = recorder.after(running.next);
  const std::int32_t steps = ++recorder.steps_N[i];
  const std::int64_t observed = recorder.index(i, running.next);
  if (end == End::kNone) return observed;
  const std::int32_t ended = recorder.ended_N[i]++;
  recorder.ended_NE[static_cast<std::int64_t>(i) * recorder.most_ended + ended] = {
      running.total_reward, running.first, steps, number, end, static_cast<std::uint8_t>(success)};
  running.next = recorder.after(running.next);
  return observed;
}

// An ended episode on its way from a ring into other rows.
struct KeptEpisode {
  std::int32_t environment, first, steps;
  std::int64_t to;  // the first of its rows there
};

// Where row t of it stands in the ring.
HOST_DEVICE inline std::int64_t recorded_row(const EpisodeRecorder& recorder, const KeptEpisode& episode,
                                             std::int64_t t) {
  const std::int64_t row = episode.first + t;
  return recorder.index(episode.environment,
                        static_cast<std::int32_t>(row < recorder.ring ? row : row - recorder.ring));
}

// An episode in a store's rows.
struct StoredEpisode {
  std::int64_t first;
  std::int32_t steps;
  std::uint8_t terminated;  // not truncated
};

// B episodes in the alignment of a learner's batch (agents/play/episode.h), padded to T steps.
struct EpisodeGather {
  int size;            // B
  std::int64_t steps;  // T, at least that of every episode
  std::int64_t num_actions;
  std::uint8_t* observation;          // [B, T + 1, row_bytes], 16-byte aligned; 0 after an episode's end
  std::int64_t* previous_action_BT1;  // this and action_BT: null where actions are continuous
  float* previous_reward_BT1;
  std::int64_t* action_BT;
  float* reward_BT;
  float* terminated_BT;
  std::int64_t* steps_B;
  float* mask_BT;
  // Null where the rows have none.
  float* log_prob_BT = nullptr;
  float* value_BT = nullptr;
  float* advantage_BT = nullptr;
  // Of a continuous action: its words, [B, T + 1, words] and [B, T, words].
  std::int32_t* previous_words = nullptr;
  std::int32_t* words = nullptr;
};

// The actions of row t of the batch's episode b, of which `from` is the row.
HOST_DEVICE inline void gather_action(const EpisodeRows& rows, const EpisodeGather& batch, std::int64_t from,
                                      std::int64_t to, std::int64_t at, bool has_previous, bool valid, bool is_step) {
  if (batch.words == nullptr) {
    batch.previous_action_BT1[to] = has_previous ? rows.action[from - 1] : batch.num_actions;
    if (is_step) batch.action_BT[at] = valid ? rows.action[from] : 0;
    return;
  }
  const std::int32_t words = rows.action_words();
  for (std::int32_t i = 0; i < words; ++i) {
    batch.previous_words[to * words + i] = has_previous ? rows.action_at(from - 1)[i] : kNoAction;
    if (is_step) batch.words[at * words + i] = valid ? rows.action_at(from)[i] : 0;
  }
}

// Row t = 0 .. T of the batch's episode b, all but its observation.
HOST_DEVICE inline void gather_row(const EpisodeRows& rows, const EpisodeGather& batch, const StoredEpisode& episode,
                                   std::int64_t b, std::int64_t t) {
  const std::int64_t from = episode.first + t, to = b * (batch.steps + 1) + t;
  const bool has_previous = t > 0 && t <= episode.steps, valid = t < episode.steps;
  const std::int64_t at = to - b;  // rows of T
  gather_action(rows, batch, from, to, at, has_previous, valid, t < batch.steps);
  batch.previous_reward_BT1[to] = has_previous ? rows.reward[from - 1] : 0.0f;
  if (t == 0) batch.steps_B[b] = episode.steps;
  if (t == batch.steps) return;
  batch.reward_BT[at] = valid ? rows.reward[from] : 0.0f;
  batch.mask_BT[at] = valid ? 1.0f : 0.0f;
  batch.terminated_BT[at] = t == episode.steps - 1 && episode.terminated != 0 ? 1.0f : 0.0f;
  if (batch.log_prob_BT == nullptr) return;
  batch.log_prob_BT[at] = valid ? rows.log_prob[from] : 0.0f;
  batch.value_BT[at] = valid ? rows.value[from] : 0.0f;
  batch.advantage_BT[at] = valid ? rows.advantage[from] : 0.0f;
}

// What a learner makes of B episodes' steps, [B, T], on its way into their rows.
struct EpisodeAdvantages {
  int size;            // B
  std::int64_t steps;  // T
  const float* value_BT;
  const float* advantage_BT;
};

// Step t < T of the batch's episode b.
HOST_DEVICE inline void put_advantage(const EpisodeRows& rows, const EpisodeAdvantages& advantages,
                                      const StoredEpisode& episode, std::int64_t b, std::int64_t t) {
  if (t >= episode.steps) return;
  const std::int64_t from = b * advantages.steps + t, to = episode.first + t;
  rows.value[to] = advantages.value_BT[from];
  rows.advantage[to] = advantages.advantage_BT[from];
}

}  // namespace engram
