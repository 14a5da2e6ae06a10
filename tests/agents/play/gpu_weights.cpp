// What a captured rollout acts by after its network's weights have changed.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "agents/play/rollout.h"
#include "agents/run/trained/trained_agent.h"
#include "nn/device/autocast.h"
#include "nn/fused/weights/prepared_weights.h"
#include "nn/layers/layers.h"
#include "tests/agents/act/small_agent.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::skip_without_gpu;

namespace {

constexpr int kEnvs = 5;

// An agent that sees its previous action does not act in one kernel.
const Settings kSettings = {{"task.name", "visual_match"},   {"task.explore_steps", "2"},
                            {"task.distractor_steps", "40"}, {"task.reward_steps", "15"},
                            {"memory.width", "24"},          {"network.previous_action_width", "3"},
                            {"run.num_envs", "5"},           {"run.seed", "5"}};

Config config_of(const std::string& backbone, const std::string& precision) {
  Settings settings = {{"memory.name", backbone}, {"network.hidden_width", "256"}, {"run.precision", precision}};
  settings.insert(settings.end(), kSettings.begin(), kSettings.end());
  return Config::from_settings(settings);
}

std::shared_ptr<AgentNetwork> scattered_network(const Config& config, int seed) {
  const auto network = make_network(config, config.task.info(), torch::kCPU);
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  scatter_weights(*network, 0.3);
  network->to(torch::kCUDA);
  network->eval();
  return network;
}

std::unique_ptr<Rollout> rollout_of(const Config& config, std::shared_ptr<AgentNetwork> network) {
  return make_rollout(config, std::move(network), torch::kCUDA, Purpose::kTraining, kEnvs, 1);
}

}  // namespace

TEST_CASE("a captured rollout acts by new weights as one that never had others, bit for bit") {
  if (skip_without_gpu()) return;
  for (const std::string backbone : {"hqlt", "hqlt_delayed_stream", "deltanet", "linear_transformer", "gated_deltanet",
                                     "transformer", "transformer++", "gtrxl", "gru", "lstm", "min_gru", "lru"})
    for (const std::string precision : {"bfloat16", "float32"}) {
      CAPTURE(backbone);
      CAPTURE(precision);
      const Config config = config_of(backbone, precision);
      const auto network = scattered_network(config, 11);
      const auto rollout = rollout_of(config, network);
      REQUIRE(rollout->policy().description() != "one kernel a step on the GPU");
      for (int i = 0; i < 4; ++i) rollout->play(ActionChoice::kSample);  // launched, captured, replayed
      const torch::Tensor before = rollout->policy().probabilities_NA().clone();

      const auto other = scattered_network(config, 12);
      copy_weights(*other, *network);
      const auto fresh = rollout_of(config, other);
      for (Rollout* own : {rollout.get(), fresh.get()}) {
        own->restart(0);
        own->draw_from(0);
      }
      for (int i = 0; i < 4; ++i) {
        CAPTURE(i);
        for (Rollout* own : {rollout.get(), fresh.get()}) own->play(ActionChoice::kSample);
        REQUIRE(torch::equal(rollout->policy().probabilities_NA(), fresh->policy().probabilities_NA()));
        REQUIRE((rollout->recording().running() == fresh->recording().running()));
      }
      CHECK_FALSE(torch::equal(rollout->policy().probabilities_NA(), before));
    }
}

TEST_CASE("weights that are kept change when they are refreshed, and for passes that take them alone") {
  if (skip_without_gpu()) return;
  const torch::NoGradGuard no_grad;
  torch::nn::Linear map(torch::nn::LinearOptions(16, 5));
  map->to(torch::kCUDA);
  const torch::Tensor x = torch::randn({7, 16}, torch::kCUDA).to(torch::kBFloat16);
  const auto mapped = [&] { return apply_linear(map, x); };
  const cuda::PreparedWeights prepared(map->parameters());
  torch::Tensor kept;
  {
    const cuda::PreparedWeights::InUse use(&prepared);
    kept = mapped();
  }
  CHECK(torch::equal(kept, mapped()));
  map->weight.mul_(2);
  map->bias.add_(1);
  const torch::Tensor fresh = mapped();
  CHECK_FALSE(torch::equal(kept, fresh));
  const cuda::PreparedWeights::InUse use(&prepared);
  CHECK(torch::equal(mapped(), kept));
  {
    const cuda::PreparedWeights::InUse none(nullptr);
    CHECK(torch::equal(mapped(), fresh));
  }
  prepared.refresh();
  CHECK(torch::equal(mapped(), fresh));
  // Of tensors that are not the network's nothing is kept.
  torch::nn::Linear other(torch::nn::LinearOptions(16, 5));
  other->to(torch::kCUDA);
  const torch::Tensor first = apply_linear(other, x);
  other->weight.mul_(2);
  CHECK_FALSE(torch::equal(apply_linear(other, x), first));
}

// The kernels round the last layer's weights to bfloat16, too, as learning does.
TEST_CASE("an acting head computes by learning's kernels what its definition says") {
  if (skip_without_gpu()) return;
  const torch::NoGradGuard no_grad;
  for (const std::string hidden : {"64", "96", "256"})
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
      CAPTURE(hidden);
      Settings settings = {{"memory.name", "gru"}, {"network.hidden_width", hidden}};
      settings.insert(settings.end(), kSettings.begin(), kSettings.end());
      const auto network = scattered_network(Config::from_settings(settings), 13);
      const torch::Tensor features = torch::randn({37, 24}, torch::kCUDA);
      network->use_kernels(false);
      const torch::Tensor expected = network->head("actor", features);
      network->use_kernels(true);
      const ComputeIn products(torch::kCUDA, dtype);
      const torch::Tensor logits = network->head("actor", features);
      REQUIRE((logits.sizes() == expected.sizes() && logits.scalar_type() == torch::kFloat32));
      const double error = ((logits - expected).norm() / expected.norm()).item<double>();
      CHECK(error < (dtype == torch::kFloat32 ? 1e-5 : 0.02));
      CHECK((error > 1e-4) == (dtype == torch::kBFloat16));
    }
}
