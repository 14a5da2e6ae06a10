// DevicePolicy: acts in N environments on the GPU, one kernel a step (kernels/agent_step). Nothing comes to the host:
// observations are read and actions written where the environments keep them, and a step can be captured in a graph.
//
// The same agent as Policy: the same encoder, memory and actor, actions drawn from the same streams. It computes
// neither critics nor what is seen of previous actions and rewards.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "agents/network.h"
#include "agents/policy.h"
#include "kernels/agent_step/agent_step.h"
#include "storage/state_archive.h"

namespace engram {

class DevicePolicy {
 public:
  // Returns why an agent with these options cannot act this way on the current device; nothing if it can.
  static std::optional<std::string> unsupported(const NetworkOptions& options, const BackboneConfig& backbone,
                                                const TaskInfo& task, Dtype operands);

  // `network` was built from the other arguments and stands on the current GPU, in float32; its parameters must stay
  // where they are. `operands`: of matrix products (AgentStepper). Row i samples its actions from the stream (seed,
  // Purpose::kAction, i, stream). Dropout, in training mode, is keyed by (seed, tick, place); the places are numbered
  // from `first_place` on: encoder, backbone input, then query, key, value, mixer, mlp of each layer. Throws UserError
  // for what is not supported.
  DevicePolicy(std::shared_ptr<AgentNetwork> network, const NetworkOptions& options, const BackboneConfig& backbone,
               const TaskInfo& task, Dtype operands, int num_envs, std::uint64_t seed, std::uint32_t stream,
               std::uint32_t first_place, Remembering remembering = Remembering::kEpisode);

  // Takes over the network's weights; to be called whenever they have changed.
  void refresh_weights(cudaStream_t stream);

  // From now on row i samples its actions from this stream, from its beginning. On the current stream; waits for it.
  void draw_from(std::uint32_t stream);

  // Forgets every row, or the rows where finished_N (uint8 [N], on the device) is not 0: the next act() begins episodes
  // there.
  void reset_all(cudaStream_t stream);
  void reset_rows(const std::uint8_t* finished_N, cudaStream_t stream);

  // Reads observations [N, ...] and writes actions [N], both on the device. The network's training mode decides about
  // dropout alone.
  void act(const void* observation_N, std::int32_t* action_N, ActionChoice choice, cudaStream_t stream);

  // Whether action probabilities have not been finite since the beginning: training has diverged. Waits for the device.
  bool diverged() const;

  // The state between episodes: all rows must be forgotten. On the current stream.
  void visit_state(StateArchive& archive);

  // The probabilities of the last act(), float [N, A], on the device.
  const torch::Tensor& probabilities_NA() const { return probabilities_NA_; }
  const MemoryState& memory() const { return memory_; }
  // Not 0 where the next act() begins an episode, uint8 [N] on the device: an environment may write it itself.
  std::uint8_t* fresh_N() { return rows_.fresh_N; }

 private:
  std::shared_ptr<AgentNetwork> network_;
  std::uint64_t seed_;
  Remembering remembering_;
  AgentStepShape shape_;
  AgentStepper stepper_;
  MemoryState memory_;
  torch::Tensor fresh_N_, stream_N_, probabilities_NA_, diverged_, seed_tick_;
  AgentStepRows rows_;      // without dropout
  AgentStepRows dropping_;  // with it
};

}  // namespace engram
