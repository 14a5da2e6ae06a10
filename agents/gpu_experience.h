// GpuExperience: environments, policy, recording and replay on the GPU. A step is three kernels (agent, rules, record),
// captured in a graph of many steps; the host looks at the device once every few graphs.
//
// Environments play in rounds, one episode each: an environment whose episode has ended waits for the others. With
// episodes of one length that is the order of the CPU's lockstep.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/device_episode_buffer.h"
#include "agents/device_graph.h"
#include "agents/device_policy.h"
#include "agents/experience.h"
#include "envs/cuda_vec_env.h"

namespace engram {

// N environments and a policy that play one episode in each environment, recorded into slots of an EpisodeStore.
class GpuRound {
 public:
  GpuRound(CudaVecEnv& environments, DevicePolicy& policy, const EpisodeStore& store, ActionChoice choice);

  // All on the current stream. slot_N: int64 [N] on the device, at the same address in every call. The environments
  // stand at the beginning of an episode. Waits for the device. Throws std::runtime_error if the policy's probabilities
  // were not finite.
  void play(const torch::Tensor& slot_N);
  // The same with given actions: int32 [max steps, N] on the device.
  void play(const torch::Tensor& slot_N, const torch::Tensor& action_TN);

  // Graphs of equal length that together are hardly longer than the longest episode. The policy steps on, and keeps
  // drawing, until the last one has ended.
  struct Graphs {
    std::int64_t count, steps;

    explicit Graphs(std::int64_t max_steps)
        : count((max_steps + kMostSteps - 1) / kMostSteps), steps((max_steps + count - 1) / count) {}

   private:
    static constexpr std::int64_t kMostSteps = 50;
  };

 private:
  static constexpr std::int64_t kGraphsBetweenLooks = 4;

  void begin(const torch::Tensor& slot_N);
  void step_environments(const std::int32_t* action_N);
  bool all_ended() const;
  EpisodeRecorders recorders() const;

  CudaVecEnv& environments_;
  DevicePolicy& policy_;
  EpisodeStore store_;
  ActionChoice choice_;
  torch::Tensor slot_N_, running_N_, action_N_;
  bool warm_ = false;
  DeviceGraph graph_;
};

class GpuExperience final : public Experience {
 public:
  // Returns why this config cannot be run this way; nothing if it can.
  static std::optional<std::string> unsupported(const Config& config);

  GpuExperience(const Config& config, std::shared_ptr<AgentNetwork> network, torch::Device device);

  std::int64_t collect(Acting acting, const std::function<void(const EpisodeResult&)>& finished) override;
  EpisodeBatch sample() override;
  std::vector<EpisodeResult> evaluate(ActionChoice choice, int episodes, std::uint32_t first_episode,
                                      const std::function<bool()>& interrupted) override;
  int evaluation_environments() const override { return evaluation_environments_->size(); }
  void visit_state(StateArchive& archive) override;
  std::string description() const override { return "environments and policy on the GPU"; }

 private:
  // The results of the episodes in these slots, in order.
  std::vector<EpisodeResult> results(const EpisodeStore& store, const torch::Tensor& slot_N) const;
  torch::Tensor random_actions();

  const Config config_;
  const TaskInfo task_;
  const torch::Device device_;
  std::shared_ptr<AgentNetwork> network_;
  SideStream stream_;
  std::unique_ptr<CudaVecEnv> environments_, evaluation_environments_;
  DevicePolicy policy_, evaluation_policy_;
  DeviceEpisodeBuffer buffer_, evaluation_buffer_;  // the latter only records
  GpuRound round_, greedy_round_, sampled_round_;   // the last two evaluate
  Rng random_, replay_random_;
  std::uint32_t rounds_ = 0;  // collected: every environment has played so many episodes
};

}  // namespace engram
