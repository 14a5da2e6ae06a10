// A trace: everything that an agent saw, computed and did, step by step, as tensors for a safetensors file.
//
// M steps of E episodes, one after the other (evaluation_episode()); D backbone width, A actions, or numbers of a
// continuous one. Row m:
//   observations [M, ...]            o_t, in the task's own type
//   features [M, D]                  backbone output h_t
//   action_probabilities [M, A]      pi(a | h_t); of a continuous action instead:
//   action_means, action_deviations [M, A]   of the normal distributions of its numbers
//   q_values [M, A]                  Q(h_t, a), with two critics the smaller; where ActionRule::values() are of actions
//   values [M]                       V(h_t); where they are of states
//   actions [M]                      a_t, int32; of a continuous action [M, A], float32, as it was drawn
//   rewards [M]                      r_t, what a_t earned
// Episode e:
//   episode_starts [E]               its first row, int64
//   final_observations [E, ...]      what its last step led to
//   episode_ends [E]                 1 terminated, 2 truncated; uint8
//   successes [E]                    uint8
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "agents/act/shown_policy.h"
#include "agents/play/evaluator.h"
#include "agents/run/config/config.h"
#include "envs/vec/vec_env.h"
#include "storage/tensors/weights.h"

namespace engram {

struct Trace {
  TensorMap tensors;
  std::vector<EpisodeResult> results;  // those of evaluate(), which says of each whether it was decided
};

// Evaluates as evaluate() does, `episodes` >= 1 in evaluation_envs() environments, and then plays the same actions
// again to look at every step: tracing changes nothing of what is played, wherever the rollout plays. `environments`:
// of the CPU, those of the rollout; `policy` acts in them, with the rollout's network, and computes what acted then, up
// to the rounding of another road. What `between_steps` throws ends it. Throws std::invalid_argument for other numbers
// of environments.
Trace record_trace(
    Rollout& rollout, VecEnv& environments, ShownPolicy& policy, int episodes, ActionChoice choice,
    std::uint32_t first_episode, const std::function<void()>& between_steps = [] {});

// Writes the tensors, with what a trace's file says of itself: of greedy episodes of an agent with this config. Errors
// are those of replace_file().
void save_greedy_trace(const std::filesystem::path& file, const TensorMap& tensors, const Config& config);

}  // namespace engram
