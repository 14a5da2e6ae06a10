// Episode and EpisodeBatch, and the one statement of their time alignment:
// at step t = 0 .. T-1 the agent sees o_t, takes a_t, and gets r_t and o_{t+1}. An episode of T steps has T+1 rows; row
// t holds o_t, a_{t-1} and r_{t-1} (of row 0: no action, reward 0).
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "envs/task.h"

namespace engram {

struct Episode {
  std::vector<std::byte> observations;  // (T+1) x bytes of one observation
  std::vector<std::int32_t> actions;    // T rows (envs/action.h)
  std::vector<float> rewards;           // T
  std::vector<float> log_probs;         // T, or none where nobody keeps them: of the actions, to who took them
  End end = End::kNone;                 // of the last step; a truncated episode bootstraps, a terminated one does not
  bool success = false;
  // Where it was played: the environment's index, and the episode's number there, from 0 on.
  std::int32_t environment = 0;
  std::uint32_t number = 0;

  std::int64_t steps() const { return static_cast<std::int64_t>(rewards.size()); }
  double total_reward() const;
};

// B whole episodes, padded to the longest; T is the longest's number of steps. All tensors on one device.
struct EpisodeBatch {
  torch::Tensor observation;  // uint8 or float32 [B, T+1, ...]
  // Of discrete actions int64 [B, T+1], num_actions standing for "none" (row 0 and padding); of a continuous one its
  // numbers, float32 [B, T+1, A], NaN standing for "none".
  torch::Tensor previous_action_BT1;
  torch::Tensor previous_reward_BT1;  // float32 [B, T+1]
  torch::Tensor action_BT;            // int64 [B, T], or float32 [B, T, A]; 0 in the padding
  torch::Tensor reward_BT;            // float32 [B, T]
  torch::Tensor terminated_BT;        // float32 [B, T], 1 where the step ended the episode by termination
  torch::Tensor steps_B;              // int64 [B], number of steps of each episode
  torch::Tensor mask_BT;              // float32 [B, T], 1 for t < steps

  // Of a learner on policy alone, float32 [B, T], 0 in the padding.
  torch::Tensor log_prob_BT = {};   // log pi(a_t | h_t) of the policy that acted
  torch::Tensor value_BT = {};      // V(h_t), and the advantage of a_t, by the weights with which learning from these
  torch::Tensor advantage_BT = {};  // episodes began

  // Those that there are, in that order, and back.
  std::vector<torch::Tensor> tensors() const;
  static EpisodeBatch of(const std::vector<torch::Tensor>& tensors);
};

}  // namespace engram
