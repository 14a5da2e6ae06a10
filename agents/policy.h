// Policy: acts in N environments in lockstep, carrying the backbone's MemoryState of every row. This is the one step
// path: collecting, evaluating, filming and tracing all act through it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "agents/network.h"
#include "base/rng.h"
#include "envs/vec_env.h"
#include "storage/state_archive.h"

namespace engram {

enum class ActionChoice { kSample, kGreedy };

// kNothing: every step begins with an empty memory, as if its episode began there; previous action and reward are seen.
enum class Remembering { kEpisode, kNothing };

class Policy {
 public:
  // What the network computed for the last act(); on the CPU, float32.
  struct Step {
    torch::Tensor features_ND;       // backbone output h_t
    torch::Tensor probabilities_NA;  // pi(a | h_t)
    torch::Tensor q_NA;              // min(Q1, Q2)(h_t, a)
    std::vector<std::int32_t> action_N;
  };

  // Row i samples its actions from the stream (seed, Purpose::kAction, i, stream), so that what it does depends on no
  // other row; the greedy choice draws nothing. The network is on `device`.
  Policy(std::shared_ptr<AgentNetwork> network, torch::Device device, int num_envs, std::uint64_t seed,
         std::uint32_t stream, Remembering remembering = Remembering::kEpisode);

  // From now on row i samples its actions from this stream, from its beginning.
  void draw_from(std::uint32_t stream);

  // Forgets every row: the next act() begins N episodes.
  void reset_all();
  // Forgets row i: the next act() begins an episode there.
  void reset_row(int row);

  // Reads the environments' current observations and last rewards and returns what to do; the caller takes exactly
  // these actions, which the next act() shows the network as the previous ones. The network's training mode decides
  // about dropout alone. Throws std::runtime_error if the probabilities are not finite.
  const Step& act(const VecEnv& environments, ActionChoice choice);
  // The same, and `view` gets what the backbone, which must show its memory, read from it.
  const Step& act_and_view(const VecEnv& environments, ActionChoice choice, MemoryView& view);

  AgentNetwork& network() { return *network_; }

  // `max_position`: an upper bound of the steps that a row's memory has taken.
  void visit_state(StateArchive& archive, std::int64_t max_position);

 private:
  // `view`: null or filled.
  const Step& take_step(const VecEnv& environments, ActionChoice choice, MemoryView* view);

  std::shared_ptr<AgentNetwork> network_;
  torch::Device device_;
  std::uint64_t seed_;
  Remembering remembering_;
  MemoryState memory_;
  std::vector<std::uint8_t> fresh_N_;  // 1: row starts an episode with the next act()
  std::vector<Rng> rng_N_;
  Step step_;
};

}  // namespace engram
