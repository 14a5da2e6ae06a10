#include "agents/run/trained/trained_agent.h"

#include <charconv>
#include <sstream>
#include <utility>

#include "agents/learn/presets.h"
#include "agents/play/evaluator.h"
#include "base/error.h"
#include "nn/device/device.h"
#include "nn/device/gpu_share.h"
#include "nn/device/product_check.h"
#include "nn/layers/seeded_generator.h"
#include "storage/settings.h"
#include "storage/tensors/safetensors_summary.h"
#include "storage/tensors/weights.h"

namespace engram {
namespace {

// The weights of a run. Throws UserError where their file says that it is of a run with another task, network or memory
// than `trained`, the config of this one.
TensorMap load_own_weights(const RunDirectory& run, const std::filesystem::path& file, const Config& trained) {
  SafetensorsFile weights = load_safetensors(file);
  const auto found = weights.metadata.find("config");
  if (found == weights.metadata.end()) return std::move(weights.tensors);
  std::istringstream stream(found->second);
  const std::string where = "weights file '" + file.string() + "'";
  const Config own = Config::from_layers({read_settings(stream, "the config in " + where)});
  const auto compare = [&](const std::string& key, const std::string& theirs, const std::string& ours) {
    if (theirs != ours)
      throw UserError(where + " is of a run with " + key + " = " + theirs + ", but '" + run.config_file().string() +
                      "' has " + ours + ": put the run's own weights there");
  };
  compare("task.name", own.task.name(), trained.task.name());
  compare("memory.name", own.memory.name(), trained.memory.name());
  compare("learner.name", own.learner.name(), trained.learner.name());
  for (const auto& [key, allowed, theirs, ours] : differences(own.values(), trained.values()))
    if (key.starts_with("task.") || key.starts_with("network.") || key.starts_with("memory."))
      compare(key, theirs, ours);
  return std::move(weights.tensors);
}

void check_same_learner(const std::string& preset, const Config& trained, const std::filesystem::path& run_directory) {
  const std::string& learner = learner_preset(preset).learner;
  if (learner != trained.learner.name())
    throw UserError("learner.preset = '" + preset + "' is of learner " + learner +
                    ", but the learner of the agent in '" + run_directory.string() + "' is " + trained.learner.name());
}

}  // namespace

std::unique_ptr<VecEnv> unseen_episode(const TaskConfig& task, std::uint64_t seed, std::uint32_t index) {
  const auto [environment, number] = evaluation_episode(index);
  auto made = make_cpu_vec_env(task, seed, Purpose::kEvaluation, 1, 1, environment);
  made->reset_all(kFirstUnseenEpisode + number);
  return made;
}

TrainedAgent load_trained_agent(const std::filesystem::path& run_directory, WhichWeights which, torch::Device device,
                                const Settings& task_settings) {
  const RunDirectory run = RunDirectory::open(run_directory);
  const Config trained = read_config(run.config_file());
  TrainedAgent agent{with_task_settings(trained, task_settings), {}, nullptr, which};
  agent.elsewhere = differences(trained.task.values(), agent.config.task.values());
  const std::filesystem::path file = run.weights_file(which);
  if (which == WhichWeights::kBest && !std::filesystem::exists(file) &&
      std::filesystem::exists(run.weights_file(WhichWeights::kLast)))
    throw UserError("weights file '" + file.string() +
                    "' does not exist; the run has only the last weights (--weights last)");
  const TensorMap weights = load_own_weights(run, file, trained);
  agent.network = make_network(agent.config, agent.config.task.info(), device);
  load_module_weights(*agent.network, weights, "weights file '" + file.string() + "'");
  agent.network->train(agent.config.evaluation.dropout);
  return agent;
}

WeightsAge read_weights_age(const RunDirectory& run, WhichWeights which) {
  const std::filesystem::path file = run.weights_file(which);
  const SafetensorsSummary contents = summarize_safetensors(file);
  const auto steps = count_entry(contents, "environment_steps"), updates = count_entry(contents, "updates");
  if (!steps || !updates)
    throw UserError("weights file '" + file.string() + "' does not say after how many steps it was written");
  return {*steps, *updates};
}

AgentToAdapt load_agent_to_adapt(const std::filesystem::path& run_directory, const SettingsLayers& layers) {
  const RunDirectory run = RunDirectory::open(run_directory);
  const Config trained = read_config(run.config_file());
  naming_line(layers, [&] {
    for (const SettingsLayer& layer : layers) {
      const auto same = [&](const std::string& key, const std::string& what, const std::string& own) {
        const std::string* const name = value_of(layer.settings, key);
        if (name != nullptr && *name != own)
          throw SettingError(key, key + " = '" + *name + "', but the " + what + " of the agent in '" +
                                      run_directory.string() + "' is " + own);
      };
      same("memory.name", "memory", trained.memory.name());
      same("learner.name", "learner", trained.learner.name());
      if (const std::string* const preset = value_of(layer.settings, "learner.preset"))
        about_key("learner.preset", [&] { check_same_learner(*preset, trained, run_directory); });
    }
  });
  SettingsLayers all = {{.settings = {{"adapters.rank", "8"}}}};
  all.insert(all.end(), layers.begin(), layers.end());
  const std::filesystem::path file = run.weights_file(WhichWeights::kBest);
  return {with_task_layers(trained, all), load_own_weights(run, file, trained), file};
}

torch::ScalarType compute_dtype(const Config& config, torch::Device device) {
  return device.is_cuda() && config.run.precision != Precision::kFloat32 ? torch::kBFloat16 : torch::kFloat32;
}

std::shared_ptr<AgentNetwork> make_network(const Config& config, const TaskInfo& task, torch::Device device) {
  const SeededGenerator drawing(config.run.seed);
  return draw_network(config, task, device);
}

std::shared_ptr<AgentNetwork> draw_network(const Config& config, const TaskInfo& task, torch::Device device) {
  check_learner_of_actions(config);
  auto network = std::make_shared<AgentNetwork>(config.network, config.memory, task, config.run.seed, config.learner);
  network->to(device);
  network->compute_in(compute_dtype(config, device));
  network->use_kernels(config.run.kernels != Kernels::kOff);
  return network;
}

namespace {

// Throws where the build has no code for it, or where this program's share of it makes products wrong.
torch::Device usable_gpu(int index) {
  check_device_architecture(index);
  const torch::Device gpu(torch::kCUDA, static_cast<torch::DeviceIndex>(index));
  check_products_of_share(gpu);
  return gpu;
}

}  // namespace

torch::Device parse_device(const std::string& text) {
  const int gpus = static_cast<int>(torch::cuda::device_count());
  if (text == "cpu") return torch::kCPU;
  if (text == "auto") return gpus > 0 ? usable_gpu(0) : torch::Device(torch::kCPU);
  int index = 0;
  if (text != "cuda") {
    const std::string prefix = "cuda:";
    const char* const end = text.data() + text.size();
    const auto parsed = text.starts_with(prefix) ? std::from_chars(text.data() + prefix.size(), end, index)
                                                 : std::from_chars_result{nullptr, std::errc::invalid_argument};
    if (parsed.ec != std::errc{} || parsed.ptr != end || index < 0)
      throw UserError("device '" + text + "' is unknown; it is one of auto, cpu, cuda, cuda:N");
  }
  if (index >= gpus)
    throw UserError(
        "device '" + text + "' is not there: " +
        (gpus == 0 ? no_gpu_text(device_count_error()) + "; use --device cpu" : "GPUs found: " + std::to_string(gpus)));
  return usable_gpu(index);
}

}  // namespace engram
