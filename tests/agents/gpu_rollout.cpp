#include "agents/gpu_experience.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "agents/trained_agent.h"
#include "agents/trainer.h"
#include "nn/cuda_support.h"
#include "storage/weights.h"
#include "tests/agents/small_agent.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::skip_without_gpu;

namespace {

Config config_of(const Settings& more) {
  Settings settings = {{"memory.width", "24"},         {"memory.layers", "2"},         {"memory.heads", "2"},
                       {"network.hidden_width", "32"}, {"replay.batch_episodes", "9"}, {"run.num_envs", "3"},
                       {"run.precision", "float32"},   {"evaluation.episodes", "4"},   {"run.seed", "5"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return Config::from_settings(settings);
}

// Episodes of one length: environments in lockstep and in rounds play them in the same order.
const Settings kMaze = {{"task.name", "tmaze"}, {"task.corridor_length", "25"}, {"memory.name", "hqlt"}};
const Settings kMatch = {{"task.name", "visual_match"},
                         {"task.explore_steps", "2"},
                         {"task.distractor_steps", "20"},
                         {"task.reward_steps", "15"},
                         {"memory.name", "deltanet"}};

// The run's weights, moved so far that actions depend on what is seen.
std::shared_ptr<AgentNetwork> network_of(const Config& config, torch::Device device) {
  torch::set_num_threads(1);  // a second thread would wait more than compute at these sizes
  const auto network = make_network(config, config.task.info(), torch::kCPU);
  torch::manual_seed(11);
  scatter_weights(*network, 0.3);
  network->to(device);
  network->train();
  return network;
}

bool same(const EpisodeResult& a, const EpisodeResult& b) {
  return a.total_reward == b.total_reward && a.success == b.success && a.steps == b.steps;
}
bool same(const std::vector<EpisodeResult>& a, const std::vector<EpisodeResult>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return same(x, y); });
}

std::vector<EpisodeResult> collect_random(Experience& experience, std::size_t episodes) {
  std::vector<EpisodeResult> results;
  while (results.size() < episodes)
    experience.collect(Acting::kRandom, [&](const EpisodeResult& result) { results.push_back(result); });
  return results;
}

}  // namespace

TEST_CASE("random episodes and the batches drawn from them are those of the CPU") {
  if (skip_without_gpu()) return;
  const Config config = config_of(kMaze);
  GpuExperience gpu(config, network_of(config, torch::kCUDA), torch::kCUDA);
  HostExperience host(config, network_of(config, torch::kCPU), torch::kCPU, 1);
  CHECK(same(collect_random(gpu, 12), collect_random(host, 12)));
  for (int i = 0; i < 5; ++i) {
    const EpisodeBatch actual = gpu.sample(), expected = host.sample();
    const auto equal = [](const torch::Tensor& a, const torch::Tensor& b) { return torch::equal(a.cpu(), b); };
    CHECK(equal(actual.observation, expected.observation));
    CHECK(equal(actual.previous_action_BT1, expected.previous_action_BT1));
    CHECK(equal(actual.previous_reward_BT1, expected.previous_reward_BT1));
    CHECK(equal(actual.action_BT, expected.action_BT));
    CHECK(equal(actual.reward_BT, expected.reward_BT));
    CHECK(equal(actual.terminated_BT, expected.terminated_BT));
    CHECK(equal(actual.steps_B, expected.steps_B));
    CHECK(equal(actual.mask_BT, expected.mask_BT));
  }
}

TEST_CASE("evaluations of the same weights are those of the CPU") {
  if (skip_without_gpu()) return;
  for (const Settings& task : {kMaze, kMatch}) {
    const Config config = config_of(task);
    CAPTURE(config.task.name());
    GpuExperience gpu(config, network_of(config, torch::kCUDA), torch::kCUDA);
    HostExperience host(config, network_of(config, torch::kCPU), torch::kCPU, 1);
    std::vector<EpisodeResult> all;
    // Environments with unequal quotas, from the beginning and from later episodes on, the second time captured.
    for (const std::uint32_t first : {0u, 7u}) {
      const auto never = [] { return false; };
      const std::vector<EpisodeResult> results = gpu.evaluate(ActionChoice::kGreedy, 30, first, never);
      CHECK(results.size() == 30);
      CHECK(same(results, host.evaluate(ActionChoice::kGreedy, 30, first, never)));
      // Actions drawn from the same streams, from their beginning each time.
      const std::vector<EpisodeResult> sampled = gpu.evaluate(ActionChoice::kSample, 30, first, never);
      CHECK(same(sampled, host.evaluate(ActionChoice::kSample, 30, first, never)));
      CHECK(same(sampled, gpu.evaluate(ActionChoice::kSample, 30, first, never)));
      if (config.task.name() == "visual_match") {  // in the maze this agent nearly always takes the same way
        CHECK_FALSE(same(sampled, results));
        CHECK_FALSE(same(sampled, gpu.evaluate(ActionChoice::kSample, 30, first + 1, never)));
      }
      all.insert(all.end(), results.begin(), results.end());
    }
    // The comparison sees something: episodes differ.
    if (config.task.name() == "visual_match")
      CHECK(std::any_of(all.begin(), all.end(), [&](const EpisodeResult& result) { return !same(result, all[0]); }));
  }
}

TEST_CASE("captured rounds take the actions of steps launched one by one") {
  if (skip_without_gpu()) return;
  for (const Settings& task : {kMaze, kMatch}) {
    const Config config = config_of(task);
    const TaskInfo info = config.task.info();
    CAPTURE(info.name);
    const auto network = network_of(config, torch::kCUDA);
    constexpr int kEnvs = 5, kRounds = 4;
    struct Side {
      std::unique_ptr<CudaVecEnv> environments;
      DevicePolicy policy;
      DeviceEpisodeBuffer buffer;
    };
    const auto side = [&] {
      return Side{make_cuda_vec_env(config.task, 5, Purpose::kTraining, kEnvs),
                  DevicePolicy(network, config.network, config.memory, info, Dtype::kFloat32, kEnvs, 5, 0, 1000),
                  DeviceEpisodeBuffer(config.replay, info, kEnvs, torch::kCUDA)};
    };
    Side captured = side(), launched = side();
    const auto actions = [&](Side& of, const torch::Tensor& slot_N) {
      const EpisodeStore& store = of.buffer.store();
      const auto options = torch::TensorOptions(torch::kCUDA).dtype(torch::kInt32);
      return std::pair(
          torch::from_blob(store.action_SM, {store.slots, store.max_steps}, options).index_select(0, slot_N),
          torch::from_blob(store.steps_S, {store.slots}, options).index_select(0, slot_N));
    };
    SideStream stream;
    GpuRound round(*captured.environments, captured.policy, captured.buffer.store(), ActionChoice::kSample);
    const auto running_N = torch::zeros({kEnvs}, torch::TensorOptions(torch::kCUDA).dtype(torch::kUInt8));
    const auto action_N = torch::zeros({kEnvs}, running_N.options().dtype(torch::kInt32));
    for (int i = 0; i < kRounds; ++i) {
      torch::Tensor slot_N, other_N;
      stream.run([&] {
        slot_N = captured.buffer.slots_for(kEnvs);
        round.play(slot_N);
      });
      const GpuRound::Graphs graphs(info.max_episode_steps);
      const std::int64_t steps = graphs.count * graphs.steps;
      stream.run([&] {
        other_N = launched.buffer.slots_for(kEnvs);
        const EpisodeRecorders recorders{kEnvs, other_N.data_ptr<std::int64_t>(), running_N.data_ptr<std::uint8_t>()};
        CudaVecEnv& environments = *launched.environments;
        environments.reset_finished(current_stream());
        begin_episodes(launched.buffer.store(), recorders, environments.observation_N(), current_stream());
        launched.policy.reset_all(current_stream());
        for (std::int64_t t = 0; t < steps; ++t) {
          launched.policy.act(environments.observation_N(), action_N.data_ptr<std::int32_t>(), ActionChoice::kSample,
                              current_stream());
          environments.step(action_N.data_ptr<std::int32_t>(), current_stream());
          record_step(launched.buffer.store(), recorders,
                      {action_N.data_ptr<std::int32_t>(), environments.reward_N(),
                       reinterpret_cast<const std::uint8_t*>(environments.end_N()), environments.success_N(),
                       environments.observation_N()},
                      current_stream());
        }
      });
      torch::cuda::synchronize();
      const auto [one, one_steps] = actions(captured, slot_N);
      const auto [other, other_steps] = actions(launched, other_N);
      CHECK(torch::equal(one_steps, other_steps));
      for (int n = 0; n < kEnvs; ++n) {
        const std::int64_t length = one_steps[n].item<int>();
        CHECK(torch::equal(one[n].narrow(0, 0, length), other[n].narrow(0, 0, length)));
      }
      CHECK(one.min().item<int>() != one.max().item<int>());  // more than one action is taken
      captured.buffer.add_recorded(i);
      launched.buffer.add_recorded(i);
    }
  }
}

namespace {

struct KeepWeights : TrainObserver {
  TensorMap weights;
  void finished(const TrainStatus&, const AgentNetwork& network) override {
    for (const auto& [name, tensor] : module_weights(network)) weights[name] = tensor.clone();
  }
};

}  // namespace

TEST_CASE("the same run on a GPU ends with the same bits, another seed with others") {
  if (skip_without_gpu()) return;
  const auto run = [](const char* seed) {
    Settings settings = kMatch;
    settings.insert(settings.end(), {{"run.precision", "bfloat16"},
                                     {"run.steps", "1200"},
                                     {"run.random_episodes", "6"},
                                     {"evaluation.every_steps", "400"},
                                     {"run.seed", seed}});
    KeepWeights recorder;
    Trainer trainer(config_of(settings), torch::kCUDA, 1);
    CHECK(trainer.acts_in() == "environments and policy on the GPU");
    CHECK(trainer.run({&recorder}).updates > 100);
    return recorder.weights;
  };
  const auto equal = [](const TensorMap& a, const TensorMap& b) {
    return std::all_of(a.begin(), a.end(),
                       [&](const auto& item) { return torch::equal(item.second, b.at(item.first)); });
  };
  const TensorMap first = run("5");
  CHECK(equal(first, run("5")));
  CHECK_FALSE(equal(first, run("6")));
}
