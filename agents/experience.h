// Experience: where a learner's episodes come from, where they are kept and how its agent is evaluated. HostExperience
// acts in environments of the CPU and keeps episodes in the host's memory, whatever the network's device; GpuExperience
// (gpu_experience.h) does all of it on the GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agents/collector.h"
#include "agents/config.h"
#include "agents/episode_buffer.h"
#include "agents/evaluator.h"
#include "agents/network.h"
#include "agents/policy.h"
#include "storage/state_archive.h"

namespace engram {

enum class Acting { kRandom, kPolicy };

class Experience {
 public:
  virtual ~Experience() = default;

  // Collects a while: at least one step of every environment, at most one episode of each. Keeps the episodes that
  // ended and passes their results to `finished`, in the order of the environments. Returns the environment steps
  // taken. Under kPolicy the network is in training mode: dropout acts, memory is carried.
  virtual std::int64_t collect(Acting acting, const std::function<void(const EpisodeResult&)>& finished) = 0;
  // A batch drawn from the episodes kept, of which there must be one; valid until the next call.
  virtual EpisodeBatch sample() = 0;
  // Plays `episodes` episodes without dropout, from episode `first_episode` of every evaluation environment on; sampled
  // actions are drawn from evaluation_actions(first_episode). Nothing of it reaches the learner or collect().
  // Returns fewer episodes, which mean nothing, once `interrupted` returns true.
  virtual std::vector<EpisodeResult> evaluate(ActionChoice choice, int episodes, std::uint32_t first_episode,
                                              const std::function<bool()>& interrupted) = 0;
  virtual int evaluation_environments() const = 0;
  // What the next collect() and sample() depend on, besides the network.
  virtual void visit_state(StateArchive& archive) = 0;
  // Where it acts, for people: "one kernel a step on the GPU".
  virtual std::string description() const = 0;
};

// `network` is on `device` and outlives the experience. On a GPU, GpuExperience where it takes the config.
std::unique_ptr<Experience> make_experience(const Config& config, std::shared_ptr<AgentNetwork> network,
                                            torch::Device device, int threads);

class HostExperience final : public Experience {
 public:
  HostExperience(const Config& config, std::shared_ptr<AgentNetwork> network, torch::Device device, int threads);

  std::int64_t collect(Acting acting, const std::function<void(const EpisodeResult&)>& finished) override;
  EpisodeBatch sample() override;
  std::vector<EpisodeResult> evaluate(ActionChoice choice, int episodes, std::uint32_t first_episode,
                                      const std::function<bool()>& interrupted) override;
  int evaluation_environments() const override { return evaluation_environments_->size(); }
  void visit_state(StateArchive& archive) override;
  std::string description() const override { return "environments on the CPU"; }

 private:
  const torch::Device device_;
  const int batch_episodes_;
  std::unique_ptr<VecEnv> environments_, evaluation_environments_;
  Policy policy_, evaluation_policy_;
  Collector collector_;
  EpisodeBuffer buffer_;
  Rng replay_random_;
};

// What both kinds agree on, so that a run draws the same numbers on either.
int evaluation_envs(const Config& config);
Remembering collecting_memory(const Config& config);

}  // namespace engram
