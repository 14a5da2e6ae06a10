// Rollout: environments and a policy on one device, playing on and on. On the CPU the host looks at the environments
// after every step. On a GPU it does so every kStepsBetweenLooks steps, which are one CUDA graph (of the policy's step,
// rules and recording), and nothing else waits for the device; while all episodes are at the same step, the steps to
// the next look are so many that the episodes of full length end at it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "agents/act/policy.h"
#include "agents/play/device_work.h"
#include "agents/play/episode.h"
#include "agents/play/recorded_env.h"
#include "agents/run/config/config.h"
#include "base/rng.h"
#include "storage/tensors/state_archive.h"

namespace engram {

class EpisodeLog;

class Rollout {
 public:
  static constexpr int kStepsBetweenLooks = 32;  // on a GPU
  static int between_looks(torch::Device device) { return device.is_cuda() ? kStepsBetweenLooks : 1; }

  // Environments made for between_looks(device) steps between two looks. Starts episode 0 in each of them.
  Rollout(std::unique_ptr<RecordedEnv> environments, std::unique_ptr<Policy> policy,
          bool evaluates_with_dropout = false);

  // Begins episode `first_episode` in every environment, or number_N[i] in environment i; nothing is remembered.
  void restart(std::uint32_t first_episode);
  void restart(std::vector<std::uint32_t> number_N);
  // The episodes that are under way are given up where they have had a step: what they were is not kept.
  void abandon_running();

  // What was played until a look.
  struct Played {
    std::int64_t steps = 0;                 // of each environment
    std::int64_t unrecorded = 0;            // among these of all environments (RecordedEnv::unrecorded_steps())
    std::vector<RecordedEpisode> episodes;  // that ended, environment by environment
  };
  // Plays until the next look; the policy acts, or actions are drawn uniformly from `random`, row by row. What is
  // recorded of the episodes stays until the next call. Throws DivergedError if the policy's probabilities were
  // not finite.
  Played play(ActionChoice choice);
  Played play_random(Rng& random);

  // The policy's random numbers (Policy::draw_from).
  void draw_from(std::uint32_t stream);
  // Runs `work` behind what was played, for those who read what is recorded.
  void run(const std::function<void()>& work) { work_.run(work); }

  const RecordingMemory& recording() const { return environments_->recording(); }
  const TaskInfo& info() const { return environments_->info(); }
  int size() const { return environments_->size(); }
  torch::Device device() const { return environments_->device(); }
  Policy& policy() { return *policy_; }
  // Whether evaluations (agents/play/evaluator.h) drop channels as training does.
  bool evaluates_with_dropout() const { return evaluates_with_dropout_; }

  // Between two looks. Restoring plays the running episodes again, or where the environments cannot, gives them up.
  void visit_state(StateArchive& archive);

 private:
  void begin_running();
  void play_running(const EpisodeLog& log, const StateArchive& archive);
  int steps_to_look() const;
  Played look(int steps);

  std::unique_ptr<RecordedEnv> environments_;
  std::unique_ptr<Policy> policy_;
  DeviceWork work_;
  bool evaluates_with_dropout_;
  std::vector<std::uint32_t> number_N_;  // of the running episodes
};

// Where the environments of a run come from that are not those of its task: others step them, on the CPU.
struct EnvironmentSource {
  // Environments for training, so many of them, or for evaluation, so many or fewer; made for one step between looks.
  std::function<std::unique_ptr<RecordedEnv>(Purpose purpose, int num_envs)> make;
  bool evaluates = false;  // there are some for evaluation

  explicit operator bool() const { return static_cast<bool>(make); }
};

// What plays in these environments; the policy as below.
std::unique_ptr<Rollout> make_rollout(const Config& config, std::shared_ptr<AgentNetwork> network,
                                      std::unique_ptr<RecordedEnv> environments, MemorySpan span = MemorySpan::kEpisode,
                                      std::uint32_t first_environment = 0);

// What plays a run's task. On a GPU the first policy that supports the agent (run.kernels), on the CPU the network's
// own step and up to `threads` threads of environments. `network` is on `device`. Environments and actions draw from
// the streams of environment `first_environment` on.
std::unique_ptr<Rollout> make_rollout(const Config& config, std::shared_ptr<AgentNetwork> network, torch::Device device,
                                      Purpose purpose, int num_envs, int threads,
                                      MemorySpan span = MemorySpan::kEpisode, std::uint32_t first_environment = 0);

}  // namespace engram
