// engram bench update: one update of the learner on a GPU, against the same update by LibTorch's operations.
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agents/config.h"
#include "agents/sac_learner.h"
#include "agents/trained_agent.h"
#include "apps/bench.h"
#include "base/error.h"

namespace engram {
namespace {

using torch::Tensor;

// Episodes of random observations, actions and rewards; those of a real run have the same sizes.
EpisodeBatch random_batch(const TaskInfo& task, std::int64_t batch, std::int64_t steps, torch::Device device) {
  std::vector<std::int64_t> shape{batch, steps + 1};
  shape.insert(shape.end(), task.observation.shape.begin(), task.observation.shape.end());
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

// Greatest relative difference of the critics' losses of the first updates, each against the CPU's in float32 with the
// same dropout.
double loss_difference(const Config& config, torch::Device device, const Setting& setting) {
  constexpr int kUpdates = 5;
  torch::manual_seed(1);
  const EpisodeBatch batch = random_batch(config.task.info(), 4, 60, torch::kCPU);
  const auto losses = [&](torch::Device where) {
    SacLearner learner(config.learner, network_for(config, where, setting));
    EpisodeBatch moved = batch;
    for (Tensor* tensor : {&moved.observation, &moved.previous_action_BT1, &moved.previous_reward_BT1, &moved.action_BT,
                           &moved.reward_BT, &moved.terminated_BT, &moved.steps_B, &moved.mask_BT})
      *tensor = tensor->to(where);
    std::vector<double> values;
    for (int i = 0; i < kUpdates; ++i) {
      const LossReport report = learner.update(moved);
      values.push_back(report.critic_loss.item<double>());
      values.push_back(report.actor_loss.item<double>());
    }
    return values;
  };
  const std::vector<double> reference = losses(torch::kCPU), got = losses(device);
  double worst = 0;
  for (std::size_t i = 0; i < reference.size(); ++i)
    worst = std::max(worst, std::abs(got[i] - reference[i]) / std::abs(reference[i]));
  return std::isfinite(worst) ? worst : INFINITY;
}

// Median over `repeats` of milliseconds that an update takes on the GPU.
double time_update(const Config& config, torch::Device device, const Setting& setting, int repeats) {
  SacLearner learner(config.learner, network_for(config, device, setting));
  const EpisodeBatch batch =
      random_batch(config.task.info(), config.replay.batch_episodes, config.task.info().max_episode_steps, device);
  for (int i = 0; i < 6; ++i) learner.update(batch);
  std::vector<double> milliseconds;
  for (int i = 0; i < repeats; ++i) {
    at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
    begin.record();
    learner.update(batch);
    end.record();
    end.synchronize();
    milliseconds.push_back(begin.elapsed_time(end));
  }
  std::nth_element(milliseconds.begin(), milliseconds.begin() + repeats / 2, milliseconds.end());
  return milliseconds[repeats / 2];
}

}  // namespace

int bench_update(const std::vector<std::string>& arguments) {
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  const torch::Device device = parse_device("cuda");
  constexpr Setting kSettings[] = {{"kernels, bfloat16", true, torch::kBFloat16},
                                   {"kernels, float32", true, torch::kFloat32},
                                   {"LibTorch, float32", false, torch::kFloat32}};
  // Bounds of the loss difference: what rounding to bfloat16 and to float32 makes of a critic's loss.
  const auto bound = [](const Setting& setting) { return setting.dtype == torch::kBFloat16 ? 0.02 : 1e-4; };
  if (!json) std::printf("%-12s %-20s %12s %12s %10s\n", "backbone", "update", "difference", "ms", "ratio");
  for (const char* backbone : {"hqlt", "deltanet", "transformer"}) {
    const Config config = Config::from_settings({{"task.preset", "visual_match_hqlt"}, {"memory.name", backbone}});
    double plain = NAN;
    for (auto setting = std::rbegin(kSettings); setting != std::rend(kSettings); ++setting) {
      const double difference = loss_difference(config, device, *setting);
      const bool passed = difference <= bound(*setting);
      const double milliseconds = passed ? time_update(config, device, *setting, setting->kernels ? 50 : 10) : NAN;
      if (!setting->kernels) plain = milliseconds;
      if (json)
        std::printf("%s\n", nlohmann::json{{"backbone", backbone},
                                           {"update", setting->label},
                                           {"batch", config.replay.batch_episodes},
                                           {"rows", config.task.info().max_episode_steps + 1},
                                           {"loss_difference", difference},
                                           {"passed", passed},
                                           {"ms", passed ? nlohmann::json(milliseconds) : nlohmann::json()},
                                           {"times_faster", plain / milliseconds}}
                                .dump()
                                .c_str());
      else
        std::printf("%-12s %-20s %12.2g %12.3f %10.1f%s\n", backbone, setting->label, difference, milliseconds,
                    plain / milliseconds, passed ? "" : "  CHECK FAILED");
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace engram
