#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agents/act/make_policy.h"
#include "agents/act/roads.h"
#include "agents/play/episode_store.h"
#include "agents/play/evaluator.h"
#include "agents/play/rollout.h"
#include "agents/run/trained/trained_agent.h"
#include "agents/run/training/trainer.h"
#include "envs/vec/cpu_vec_env.h"
#include "storage/tensors/weights.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/learn/batches.h"
#include "tests/envs/vec/ragged_env.h"
#include "tests/envs/vec/ragged_task.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::make_ragged_cuda_env;
using engram::testing::RaggedTask;
using engram::testing::skip_without_gpu;

namespace {

constexpr int kPlayedEnvs = 3;

const Settings kMaze = {{"task.name", "tmaze"}, {"task.corridor_length", "25"}};
const Settings kMatch = {{"task.name", "visual_match"},
                         {"task.explore_steps", "2"},
                         {"task.distractor_steps", "20"},
                         {"task.reward_steps", "15"}};
// Episodes end before their time where the door is opened.
const Settings kDoor = {{"task.name", "key_to_door"},
                        {"task.explore_steps", "9"},
                        {"task.distractor_steps", "5"},
                        {"task.reward_steps", "9"}};

Config config_of(const Settings& task, const std::string& backbone, const Settings& more = {}) {
  Settings settings = {{"memory.name", backbone},      {"memory.width", "24"},         {"memory.layers", "2"},
                       {"network.hidden_width", "32"}, {"replay.batch_episodes", "9"}, {"run.num_envs", "3"},
                       {"run.precision", "float32"},   {"evaluation.episodes", "4"},   {"run.seed", "5"}};
  settings.insert(settings.end(), task.begin(), task.end());
  settings.insert(settings.end(), more.begin(), more.end());
  return Config::from_settings(settings);
}

// The run's weights, moved so far that actions depend on what is seen.
std::shared_ptr<AgentNetwork> moved_network(const Config& config, const TaskInfo& task, torch::Device device) {
  torch::set_num_threads(1);  // a second thread would wait more than compute at these sizes
  const auto network = make_network(config, task, torch::kCPU);
  torch::manual_seed(11);
  scatter_weights(*network, 0.3);
  network->to(device);
  network->eval();
  return network;
}

std::vector<std::string> played_backbones() {
  std::vector<std::string> names = kMemoryBackbones;
  names.push_back("none");
  return names;
}

bool one_kernel(const std::string& backbone) { return backbone == "hqlt" || backbone == "deltanet"; }

std::unique_ptr<Rollout> rollout_of(const Config& config, torch::Device device, Purpose purpose, int num_envs,
                                    std::uint32_t first_environment = 0) {
  return make_rollout(config, moved_network(config, config.task.info(), device), device, purpose, num_envs, 1,
                      MemorySpan::kEpisode, first_environment);
}

// The ragged task played by the config's agent.
std::unique_ptr<Rollout> ragged_rollout(const Config& config, torch::Device device, int num_envs) {
  constexpr std::uint64_t kSeed = 3;
  const int looks = Rollout::between_looks(device);
  auto environments = device.is_cuda()
                          ? make_recorded_env(make_ragged_cuda_env(kSeed, Purpose::kTraining, num_envs), looks)
                          : make_recorded_env(std::make_unique<CpuVecEnv<RaggedTask>>(RaggedTask::Options{}, kSeed,
                                                                                      Purpose::kTraining, num_envs, 1),
                                              looks);
  return std::make_unique<Rollout>(
      std::move(environments),
      std::make_unique<NetworkPolicy>(moved_network(config, task_info<RaggedTask>({}), device), torch::kFloat32,
                                      num_envs, config.run.seed, MemorySpan::kEpisode, device));
}

bool same(const EpisodeResult& a, const EpisodeResult& b) {
  return a.total_reward == b.total_reward && a.success == b.success && a.steps == b.steps && a.decided == b.decided;
}
bool same(const std::vector<EpisodeResult>& a, const std::vector<EpisodeResult>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return same(x, y); });
}

// A rollout, and all that it has played.
struct PlayedSide {
  std::unique_ptr<Rollout> rollout;
  EpisodeStore store;
  std::vector<RecordedEpisode> log;
  std::int64_t steps = 0;  // of each environment

  explicit PlayedSide(std::unique_ptr<Rollout> of)
      : rollout(std::move(of)), store({.batch_episodes = 9}, rollout->info(), 100'000, rollout->device()) {}

  // `random`: null where the policy acts.
  void play(std::int64_t least_steps, ActionChoice choice, Rng* random) {
    while (steps < least_steps) {
      const Rollout::Played played = random != nullptr ? rollout->play_random(*random) : rollout->play(choice);
      rollout->run([&] { store.add(rollout->recording(), played.episodes); });
      log.insert(log.end(), played.episodes.begin(), played.episodes.end());
      steps += played.steps;
    }
  }
  // Of the episodes in the store, by environment and number.
  std::map<std::pair<std::int32_t, std::uint32_t>, std::int64_t> places() const {
    std::map<std::pair<std::int32_t, std::uint32_t>, std::int64_t> places;
    for (std::size_t i = 0; i < log.size(); ++i)
      places[{log[i].environment, log[i].number}] = static_cast<std::int64_t>(i);
    return places;
  }
};

// Compares the episodes that both have played, which are all of `host`'s.
std::string difference(const PlayedSide& device, const PlayedSide& host, EpisodeStore& device_store,
                       EpisodeStore& host_store) {
  const auto on_device = device.places(), on_host = host.places();
  std::vector<std::int64_t> device_indices, host_indices;
  for (const auto& [episode, at] : on_host) {
    const std::string name = "episode " + std::to_string(episode.second) + " of " + std::to_string(episode.first);
    const auto found = on_device.find(episode);
    if (found == on_device.end()) return name + " is missing";
    const RecordedEpisode &a = device.log[static_cast<std::size_t>(found->second)],
                          &b = host.log[static_cast<std::size_t>(at)];
    if (a.steps != b.steps || a.total_reward != b.total_reward || a.end != b.end || a.success != b.success)
      return name + " is another";
    device_indices.push_back(found->second);
    host_indices.push_back(at);
  }
  return difference(device_store.gather(device_indices), host_store.gather(host_indices),
                    device.rollout->info().num_actions());
}

}  // namespace

TEST_CASE("random episodes, and the batches drawn from them, are those of the CPU") {
  if (skip_without_gpu()) return;
  for (const Settings& task : {kMaze, kMatch, kDoor}) {
    const Config config = config_of(task, "hqlt");
    CAPTURE(config.task.name());
    const auto side = [&](torch::Device device) {
      return PlayedSide(rollout_of(config, device, Purpose::kTraining, kPlayedEnvs));
    };
    PlayedSide device = side(torch::kCUDA), host = side(torch::kCPU);
    Rng device_random(6, Purpose::kTest, 0, 0), host_random = device_random;
    device.play(416, ActionChoice::kSample, &device_random);
    host.play(416, ActionChoice::kSample, &host_random);
    CHECK(host.log.size() > 20);
    CHECK(difference(device, host, device.store, host.store) == "");
    // Episodes of one length end together, on the GPU at a look: the replay has them in the same order.
    if (config.task.name() != "tmaze") continue;
    Rng device_draws(2, Purpose::kReplay, 0, 0), host_draws = device_draws;
    REQUIRE(device.store.episodes() == host.store.episodes());
    for (int i = 0; i < 5; ++i)
      CHECK(difference(device.store.sample(device_draws), host.store.sample(host_draws), 4) == "");
  }
}

TEST_CASE("evaluations of the same weights are those of the CPU, whatever acts") {
  if (skip_without_gpu()) return;
  for (const std::string& backbone : played_backbones())
    for (const Settings& task : {kMaze, kMatch}) {
      const Config config = config_of(task, backbone);
      CAPTURE(backbone);
      CAPTURE(config.task.name());
      const auto device = rollout_of(config, torch::kCUDA, Purpose::kEvaluation, 20),
                 host = rollout_of(config, torch::kCPU, Purpose::kEvaluation, 20);
      CHECK((device->policy().description() == "one kernel a step on the GPU") == one_kernel(backbone));
      CHECK(device->policy().description().ends_with("the backbone's by kernels") ==
            (backbone.starts_with("hqlt_delayed") || backbone == "transformer" || backbone == "none" ||
             backbone == "frame_stack"));
      const auto decisions = make_cpu_vec_env(config.task, config.run.seed, Purpose::kEvaluation, 20, 1);
      const auto never = [] { return false; };
      std::vector<EpisodeResult> all;
      // Environments with unequal quotas, from the beginning and from later episodes on, the second time captured.
      for (const std::uint32_t first : {0u, 7u}) {
        const auto results = evaluate(*device, 30, ActionChoice::kGreedy, first);
        CHECK(results.size() == 30);
        CHECK(same(results, evaluate(*host, 30, ActionChoice::kGreedy, first)));
        // Actions drawn from the same streams, from their beginning each time.
        const auto sampled = evaluate(*device, 30, ActionChoice::kSample, first);
        CHECK(same(sampled, evaluate(*host, 30, ActionChoice::kSample, first)));
        CHECK(same(sampled, evaluate(*device, 30, ActionChoice::kSample, first)));
        const auto told = [&](Rollout& rollout) {
          return evaluate(rollout, 30, ActionChoice::kSample, first, never, decisions.get());
        };
        const auto told_of_device = told(*device);
        CHECK(same(told_of_device, told(*host)));
        CHECK(decision_rates(told_of_device).has_value());
        if (config.task.name() == "visual_match") {  // in the maze some agents nearly always take the same way
          CHECK_FALSE(same(sampled, results));
          CHECK_FALSE(same(sampled, evaluate(*device, 30, ActionChoice::kSample, first + 1)));
        }
        all.insert(all.end(), results.begin(), results.end());
      }
      // The comparison sees something: episodes differ, but for an agent that always takes the same way.
      if (config.task.name() == "visual_match" && backbone != std::string("none"))
        CHECK(std::any_of(all.begin(), all.end(), [&](const EpisodeResult& result) { return !same(result, all[0]); }));
    }
}

TEST_CASE("so are those of an agent that acts by another learner's rule") {
  if (skip_without_gpu()) return;
  const Config config = config_of(kMatch, "deltanet", {{"learner.name", "dqn"}, {"learner.epsilon_last", "0.3"}});
  const auto device = rollout_of(config, torch::kCUDA, Purpose::kEvaluation, 20),
             host = rollout_of(config, torch::kCPU, Purpose::kEvaluation, 20);
  CHECK(device->policy().description() != "one kernel a step on the GPU");
  for (const std::uint32_t first : {0u, 7u}) {  // the second time captured
    const auto greedy = evaluate(*device, 30, ActionChoice::kGreedy, first),
               sampled = evaluate(*device, 30, ActionChoice::kSample, first);
    CHECK(same(greedy, evaluate(*host, 30, ActionChoice::kGreedy, first)));
    CHECK(same(sampled, evaluate(*host, 30, ActionChoice::kSample, first)));
    CHECK_FALSE(same(sampled, greedy));
  }
  // What a captured step draws by changes in place.
  for (Rollout* rollout : {device.get(), host.get()}) rollout->run([&] { rollout->policy().explore(0); });
  const auto random = evaluate(*device, 30, ActionChoice::kSample, 0);
  CHECK(same(random, evaluate(*host, 30, ActionChoice::kSample, 0)));
  CHECK_FALSE(same(random, evaluate(*device, 30, ActionChoice::kGreedy, 0)));
}

TEST_CASE("a rank's environments and what acts in them draw what they draw on the CPU") {
  if (skip_without_gpu()) return;
  constexpr std::uint32_t kFirst = 7;
  for (const char* backbone : {"deltanet", "gru"}) {  // one kernel, and a graph
    CAPTURE(backbone);
    const Config config = config_of(kMatch, backbone);
    const auto results = [&](torch::Device device, std::uint32_t first) {
      const auto rollout = rollout_of(config, device, Purpose::kEvaluation, 20, first);
      return evaluate(*rollout, 30, ActionChoice::kSample, /*first_episode=*/3);
    };
    const std::vector<EpisodeResult> of_rank = results(torch::kCUDA, kFirst);
    CHECK(same(of_rank, results(torch::kCPU, kFirst)));
    CHECK_FALSE(same(of_rank, results(torch::kCUDA, 0)));
  }
}

TEST_CASE("without kernels a backbone whose step has some acts by LibTorch's operations, in the same episodes") {
  if (skip_without_gpu()) return;
  for (const std::string backbone : {"hqlt_delayed_stream", "hqlt_delayed_chunk"}) {
    CAPTURE(backbone);
    std::vector<EpisodeResult> results[2];
    for (const bool off : {false, true}) {
      const Config config =
          config_of(kMatch, backbone, {{"run.kernels", off ? "off" : "auto"}, {"memory.window", "7"}});
      const auto rollout = rollout_of(config, torch::kCUDA, Purpose::kEvaluation, 20);
      CHECK(rollout->policy().description() ==
            std::string("the network's operations in a CUDA graph") + (off ? "" : ", the backbone's by kernels"));
      results[off] = evaluate(*rollout, 30, ActionChoice::kGreedy, 0);
      const Road road = acting_road(config, rollout->policy().network(), torch::kCUDA);
      CHECK(road.road.starts_with(rollout->policy().description()));
      CHECK_FALSE(road.reason.empty());
    }
    CHECK(same(results[0], results[1]));
  }
}

TEST_CASE("episodes of very different lengths are those of the CPU, and no environment waits for another") {
  if (skip_without_gpu()) return;
  for (const std::string& backbone : {std::string("lstm"), std::string("transformer")})
    for (const bool at_random : {true, false}) {
      CAPTURE(backbone);
      CAPTURE(at_random);
      constexpr int kEnvs = 21, kSteps = 500;
      const Config config = config_of(kMatch, backbone);
      PlayedSide device(ragged_rollout(config, torch::kCUDA, kEnvs)), host(ragged_rollout(config, torch::kCPU, kEnvs));
      Rng device_random(6, Purpose::kTest, 0, 0), host_random = device_random;
      device.play(kSteps, ActionChoice::kGreedy, at_random ? &device_random : nullptr);
      host.play(kSteps, ActionChoice::kGreedy, at_random ? &host_random : nullptr);
      CHECK(host.log.size() > 300);
      CHECK(difference(device, host, device.store, host.store) == "");
      for (const PlayedSide* side : {&device, &host}) {
        std::vector<std::int64_t> steps_N(kEnvs);
        for (const RecordedEpisode& episode : side->log) steps_N[episode.environment] += episode.steps;
        for (int i = 0; i < kEnvs; ++i) CHECK(steps_N[i] + side->rollout->recording().steps_N()[i] == side->steps);
      }
    }
}

TEST_CASE("captured play takes the actions of steps launched one by one, dropout included") {
  if (skip_without_gpu()) return;
  for (const std::string& backbone : played_backbones())
    for (const Settings& task : {kMaze, kMatch}) {
      const Config config = config_of(task, backbone, {{"network.dropout", "0.2"}});
      const TaskInfo info = config.task.info();
      CAPTURE(backbone);
      CAPTURE(info.name);
      constexpr int kEnvs = 5;
      const auto captured = rollout_of(config, torch::kCUDA, Purpose::kTraining, kEnvs);
      captured->policy().network().train();
      const auto network = moved_network(config, info, torch::kCUDA);
      network->train();
      const auto environments =
          make_recorded_cuda_env(config.task, config.run.seed, Purpose::kTraining, kEnvs, Rollout::kStepsBetweenLooks);
      const auto policy = make_policy(config, network, torch::kCUDA, kEnvs, MemorySpan::kEpisode);
      environments->restart(std::vector<std::uint32_t>(kEnvs, 0));
      environments->recording().look();
      policy->refresh_weights();
      EpisodeStore kept({}, info, 100'000, torch::kCUDA), expected({}, info, 100'000, torch::kCUDA);
      for (int i = 0; i < 9; ++i) {
        const Rollout::Played played = captured->play(ActionChoice::kSample);
        {
          const auto products = policy->compute_in();
          for (std::int64_t step = 0; step < played.steps; ++step) {
            policy->act(environments->rows(), ActionChoice::kSample);
            environments->step(policy->probabilities_NA());
          }
        }
        const std::vector<RecordedEpisode> episodes = environments->recording().look();
        REQUIRE(played.episodes.size() == episodes.size());
        captured->run([&] { kept.add(captured->recording(), played.episodes); });
        expected.add(environments->recording(), episodes);
        CHECK((captured->recording().running() == environments->recording().running()));
        CHECK(torch::equal(captured->policy().probabilities_NA(), policy->probabilities_NA()));
      }
      REQUIRE(kept.episodes() == expected.episodes());
      REQUIRE(kept.episodes() >= kEnvs);
      std::vector<std::int64_t> all;
      for (std::int64_t i = 0; i < kept.episodes(); ++i) all.push_back(i);
      const EpisodeBatch one = kept.gather(all), other = expected.gather(all);
      CHECK(difference(one, to_device(other, torch::kCPU), info.num_actions()) == "");
      CHECK(one.action_BT.min().item<int>() != one.action_BT.max().item<int>());  // more than one action is taken
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
  for (const std::string& backbone : {std::string("deltanet"), std::string("hqlt"), std::string("lstm"),
                                      std::string("transformer"), std::string("none")}) {
    CAPTURE(backbone);
    const auto run = [&](const char* seed) {
      const Config config = config_of(kMatch, backbone,
                                      {{"run.precision", "bfloat16"},
                                       {"run.steps", "1200"},
                                       {"run.random_episodes", "6"},
                                       {"evaluation.every_steps", "400"},
                                       {"run.seed", seed}});
      KeepWeights recorder;
      Trainer trainer(config, torch::kCUDA, 1);
      CHECK((trainer.acts_by() == "one kernel a step on the GPU") == one_kernel(backbone));
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
}
