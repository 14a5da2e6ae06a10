// engram bench update: one update of the learner on a GPU, against the same update by LibTorch's operations.
#include <ATen/cuda/CUDAEvent.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "agents/config.h"
#include "agents/observation_tensor.h"
#include "agents/roads.h"
#include "agents/sac_learner.h"
#include "agents/trained_agent.h"
#include "apps/bench.h"
#include "base/error.h"
#include "base/text.h"

namespace engram {
namespace {

using torch::Tensor;

constexpr const char* kHelp =
    R"(One update of the learner on a GPU, of a batch of the published run (64 episodes of 780 steps): milliseconds,
median of replays of the update's CUDA graph, by the project's kernels in bfloat16 and in float32, and by
LibTorch's operations in float32 with its autograd. Before that, the losses of five updates of a small batch
must be those of the CPU, with the same dropout: within 2% in bfloat16, 0.01% in float32. What computes the backbone
stands below the figures.
)";

// Of backbone, MLPs and batch.
enum class Size { kPublished, k3x100, k1x64 };

Config config_of(const std::string& backbone, Size size) {
  Config config = published_run(backbone);
  if (size == Size::kPublished) return config;
  const bool small = size == Size::k1x64;
  Settings settings = {{"memory.width", small ? "64" : "100"}};
  if (small) settings.insert(settings.end(), {{"network.hidden_width", "64"}, {"replay.batch_episodes", "32"}});
  OptionList options = config.options();
  for (const Option& option : options.options())  // a stack has its list
    if (option.name == "memory.layers") settings.emplace_back("memory.layers", small ? "1" : "3");
  for (const auto& [key, value] : settings) options.set(key, value);
  return config;
}

std::string backbone_road(const Config& config, torch::Device device) {
  for (const Road& road : roads_of(config, *make_network(config, config.task.info(), device), device))
    if (road.part == "backbone") return road_text(road);
  throw std::logic_error("an agent without a backbone's road");
}

// Episodes of random observations, actions and rewards; those of a real run have the same sizes.
EpisodeBatch random_batch(const TaskInfo& task, std::int64_t batch, std::int64_t steps, torch::Device device) {
  const std::vector<std::int64_t> shape = observation_shape({batch, steps + 1}, task.observation);
  const Tensor action = torch::randint(task.num_actions(), {batch, steps}, torch::kInt64);
  const Tensor none = torch::full({batch, 1}, task.num_actions(), torch::kInt64);
  const Tensor reward = torch::randn({batch, steps});
  const Tensor terminated = torch::zeros({batch, steps});
  terminated.select(1, steps - 1).fill_(1);
  EpisodeBatch episodes{.observation = task.observation.type == ElementType::kUint8
                                           ? torch::randint(256, shape, torch::kUInt8)
                                           : torch::randn(shape),
                        .previous_action_BT1 = torch::cat({none, action}, 1),
                        .previous_reward_BT1 = torch::cat({torch::zeros({batch, 1}), reward}, 1),
                        .action_BT = action,
                        .reward_BT = reward,
                        .terminated_BT = terminated,
                        .steps_B = torch::full({batch}, steps, torch::kInt64),
                        .mask_BT = torch::ones({batch, steps})};
  for (Tensor* tensor :
       {&episodes.observation, &episodes.previous_action_BT1, &episodes.previous_reward_BT1, &episodes.action_BT,
        &episodes.reward_BT, &episodes.terminated_BT, &episodes.steps_B, &episodes.mask_BT})
    *tensor = tensor->to(device);
  return episodes;
}

struct Setting {
  const char* label;
  bool kernels;
  torch::ScalarType dtype;
};

std::shared_ptr<AgentNetwork> network_for(const Config& config, torch::Device device, const Setting& setting) {
  auto network = make_network(config, config.task.info(), device);
  network->use_kernels(setting.kernels);
  network->compute_in(setting.dtype);
  network->train();
  return network;
}

// Losses of the critics and the actor over the first updates, of a batch that is the same on all devices.
std::vector<double> first_losses(const Config& config, torch::Device device, const Setting& setting) {
  constexpr int kUpdates = 5;
  torch::manual_seed(1);
  const EpisodeBatch batch = random_batch(config.task.info(), 4, 60, device);
  SacLearner learner(config.learner, network_for(config, device, setting));
  std::vector<double> values;
  for (int i = 0; i < kUpdates; ++i) {
    const NamedScalars report = learner.update(batch);
    for (const char* const name : {"critic_loss", "actor_loss"}) values.push_back(named(report, name).item<double>());
  }
  return values;
}

double greatest_difference(const std::vector<double>& actual, const std::vector<double>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]) / std::abs(expected[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : INFINITY;
  }
  return worst;
}

// Median of milliseconds that an update takes on the GPU: of up to 50, as many as a second holds, at least 5.
double time_update(const Config& config, torch::Device device, const Setting& setting) {
  constexpr int kMost = 50, kLeast = 5;
  SacLearner learner(config.learner, network_for(config, device, setting));
  const EpisodeBatch batch =
      random_batch(config.task.info(), config.replay.batch_episodes, config.task.info().max_episode_steps, device);
  for (int i = 0; i < 6; ++i) learner.update(batch);
  std::vector<double> milliseconds;
  double total = 0;
  while (milliseconds.size() < kMost && (milliseconds.size() < kLeast || total < 1e3)) {
    at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
    begin.record();
    learner.update(batch);
    end.record();
    end.synchronize();
    milliseconds.push_back(begin.elapsed_time(end));
    total += milliseconds.back();
  }
  const auto middle = milliseconds.begin() + static_cast<std::ptrdiff_t>(milliseconds.size() / 2);
  std::nth_element(milliseconds.begin(), middle, milliseconds.end());
  return *middle;
}

}  // namespace

int bench_update(const BenchCall& call) {
  std::string backbones = "hqlt,deltanet,transformer";
  Size size = Size::kPublished;
  bool json = false;
  OptionList options("");
  options.add("memory", backbones, "backbones");
  options.add("size", size, {{Size::kPublished, "published"}, {Size::k3x100, "3x100"}, {Size::k1x64, "1x64"}},
              "layers x width; published: each backbone's own defaults; 1x64: heads of 64, too, and 32 episodes");
  if (!parse_bench_options("update", kHelp, options, json, call)) return 0;
  const torch::Device device = bench_gpu("update");
  const torch::DeviceGuard guard(device);

  constexpr Setting kLibTorch{"LibTorch, float32", false, torch::kFloat32};
  constexpr Setting kSettings[] = {
      kLibTorch, {"kernels, float32", true, torch::kFloat32}, {"kernels, bfloat16", true, torch::kBFloat16}};
  // What rounding to bfloat16 and to float32 makes of a loss.
  const auto bound = [](const Setting& setting) { return setting.dtype == torch::kBFloat16 ? 0.02 : 1e-4; };
  bool all_passed = true;
  if (!json) std::printf("%-12s %-20s %12s %12s %10s\n", "backbone", "update", "difference", "ms", "ratio");
  for (const std::string& backbone : split_list(backbones)) {
    const Config config = config_of(backbone, size);
    const std::string road = backbone_road(config, device);
    const std::vector<double> expected = first_losses(config, torch::kCPU, kLibTorch);
    double plain = NAN;
    for (const Setting& setting : kSettings) {
      const double difference = greatest_difference(first_losses(config, device, setting), expected);
      const bool passed = difference <= bound(setting);
      all_passed = all_passed && passed;
      const double ms = passed ? time_update(config, device, setting) : NAN;
      if (!setting.kernels) plain = ms;
      if (json) {
        const auto number = [](double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(); };
        const nlohmann::json line = {{"backbone", backbone},
                                     {"road", road},
                                     {"update", setting.label},
                                     {"batch", config.replay.batch_episodes},
                                     {"rows", config.task.info().max_episode_steps + 1},
                                     {"loss_difference", number(difference)},
                                     {"bound", bound(setting)},
                                     {"passed", passed},
                                     {"ms", number(ms)},
                                     {"ratio", number(plain / ms)}};
        std::printf("%s\n", line.dump().c_str());
      } else {
        std::printf("%-12s %-20s %12.2g %12s %10s%s\n", backbone.c_str(), setting.label, difference,
                    fixed(ms, 3).c_str(), fixed(plain / ms, 1).c_str(), passed ? "" : "  CHECK FAILED");
      }
      std::fflush(stdout);
    }
    if (!json) std::printf("  %s\n", road.c_str());
  }
  return all_passed ? 0 : 1;
}

}  // namespace engram
