// TrainedAgent: the agent of a run directory, ready to act; for evaluating, filming and tracing.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agents/act/network.h"
#include "agents/run/config/config.h"
#include "agents/run/trained/task_change.h"
#include "envs/vec/vec_env.h"
#include "storage/run/run_directory.h"

namespace engram {

// Training's own evaluations begin at episode 0 of the evaluation streams and choose the best weights. The episodes
// from this one on are seen by neither.
inline constexpr std::uint32_t kFirstUnseenEpisode = 1u << 30;

// One environment of the CPU, at the start of episode `index` of those: the same episode for all who evaluate
// (evaluation_episode()), trace, film or play it.
std::unique_ptr<VecEnv> unseen_episode(const TaskConfig& task, std::uint64_t seed, std::uint32_t index);

struct TrainedAgent {
  Config config;                            // with the options of the task that it is to play
  std::vector<OptionDifference> elsewhere;  // where these are not the ones that it was trained with
  std::shared_ptr<AgentNetwork> network;    // in the mode of its evaluations (evaluation.dropout), on the device
  WhichWeights weights = WhichWeights::kBest;

  torch::Device device() const { return network->parameters().front().device(); }
};

// `task_settings`: what to play instead of the run's own task (with_task_settings()). Throws UserError if the folder is
// not a run directory, its config or weights are missing or damaged, the weights say that they are of another agent or
// task than the config, or the agent cannot play that task. Weights that say nothing, of another program, are taken.
TrainedAgent load_trained_agent(const std::filesystem::path& run_directory, WhichWeights which, torch::Device device,
                                const Settings& task_settings = {});

// When weights were written, in a run's steps and updates.
struct WeightsAge {
  std::int64_t environment_steps, updates;
};
// Throws UserError if their file is missing or damaged, or does not say.
WeightsAge read_weights_age(const RunDirectory& run, WhichWeights which);

// A trained agent to begin a new run with.
struct AgentToAdapt {
  Config config;  // of the new run
  TensorMap weights;
  std::filesystem::path file;  // that they are of
};

// The best weights of a run, and its config with `layers` and, unless these say otherwise, adapters of rank 8. They
// may name another size of the task, and other options of the backbone that its weights fit, but no other backbone.
// Throws UserError as load_trained_agent() does.
AgentToAdapt load_agent_to_adapt(const std::filesystem::path& run_directory, const SettingsLayers& layers);

// The type of activations and matrix products on `device`, by run.precision: auto is bfloat16 on a GPU and float32 on
// the CPU, which knows no other.
torch::ScalarType compute_dtype(const Config& config, torch::Device device);

// A network with the weights that a fresh run of this config starts from, by the run's seed; the program's own draws
// stay what they are (SeededGenerator).
std::shared_ptr<AgentNetwork> make_network(const Config& config, const TaskInfo& task, torch::Device device);
// The same with weights from torch's default generator as it is, for who draws more after them.
std::shared_ptr<AgentNetwork> draw_network(const Config& config, const TaskInfo& task, torch::Device device);

// "auto" (a GPU where there is one), "cpu", "cuda", "cuda:N". Throws UserError for anything else, or a GPU that is not
// there, and std::runtime_error for a GPU that this build has no code for (kernels/common/architecture.h).
torch::Device parse_device(const std::string& text);

}  // namespace engram
