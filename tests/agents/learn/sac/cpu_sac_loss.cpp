// A whole update's loss and gradients on the CPU in float32, where engram's own loops compute them, against LibTorch's
// operations in double precision.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "agents/learn/sac/sac.h"
#include "agents/play/episode_store.h"
#include "tests/agents/act/small_agent.h"
#include "tests/agents/learn/batches.h"

using namespace engram;
using torch::Tensor;

namespace {

EpisodeBatch ragged_batch(const TaskInfo& task) {
  EpisodeStore store({}, task, 1000, torch::kCPU);
  Rng rng(1, Purpose::kTest, 0, 5);
  for (const int steps : {task.max_episode_steps, 1, 3})
    store.add(random_episode(task, steps, steps == 3 ? End::kTruncated : End::kTerminated, rng));
  return store.gather({0, 1, 2});
}

std::shared_ptr<AgentNetwork> network_in(torch::ScalarType dtype, const std::string& backbone, const TaskInfo& task) {
  torch::manual_seed(1);
  const NetworkOptions options{.previous_action_width = 3, .previous_reward_width = 2, .hidden_width = 6};
  auto network = std::make_shared<AgentNetwork>(options, small_backbone(backbone, 8), task);
  scatter_weights(*network, 0.3);
  network->to(dtype);
  network->train();
  return network;
}

// Greatest one, relative to the greatest number, but to no less than `least`.
double relative_difference(const Tensor& actual, const Tensor& expected, double least = 1e-12) {
  return ((actual.detach().to(torch::kFloat64) - expected.detach()).abs().max() /
          expected.detach().abs().max().clamp_min(least))
      .item<double>();
}

std::vector<torch::Device> devices() {
  std::vector<torch::Device> all{torch::kCPU};
  if (torch::cuda::is_available()) all.emplace_back(torch::kCUDA);
  return all;
}

}  // namespace

TEST_CASE("losses and gradients in float32 are those in double precision, dropout included") {
  const TaskInfo task = image_task(3, 70);
  const EpisodeBatch batch = ragged_batch(task);
  for (const std::string backbone : {"none", "hqlt", "deltanet", "transformer"}) {
    CAPTURE(backbone);
    const auto wide = network_in(torch::kFloat64, backbone, task), own = network_in(torch::kFloat32, backbone, task);
    const auto loss_of = [&](AgentNetwork& network, torch::ScalarType dtype) {
      SacLoss loss = sac_loss(network, batch, torch::scalar_tensor(0.2, dtype), 0.9);
      loss.backward();
      return loss;
    };
    const SacLoss expected = loss_of(*wide, torch::kFloat64), actual = loss_of(*own, torch::kFloat32);
    CHECK(expected.outputs.empty());
    CHECK(actual.outputs.size() == 3);
    for (const auto& member : {&SacLoss::total, &SacLoss::critic1, &SacLoss::critic2, &SacLoss::actor,
                               &SacLoss::entropy, &SacLoss::mean_q, &SacLoss::target_BT})
      CHECK(relative_difference(actual.*member, expected.*member) < 2e-5);
    const auto expected_gradients = wide->named_parameters();
    double greatest = 0;
    for (const auto& parameter : expected_gradients)
      if (parameter.value().grad().defined())
        greatest = std::max(greatest, parameter.value().grad().abs().max().item<double>());
    for (const auto& parameter : own->named_parameters()) {
      CAPTURE(parameter.key());
      const Tensor gradient = expected_gradients[parameter.key()].grad();
      REQUIRE(parameter.value().grad().defined() == gradient.defined());
      // Some sum up to nothing, as that of a bias of attention's keys.
      if (gradient.defined()) CHECK(relative_difference(parameter.value().grad(), gradient, 1e-2 * greatest) < 1e-4);
    }
  }
}

TEST_CASE("an input that is not a number makes the loss none: of actor, critics, their targets and rewards alike") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const TaskInfo task = vector_task(4, 3, 5);
  for (const torch::Device device : devices()) {
    CAPTURE(device.str());
    const EpisodeBatch batch = to_device(ragged_batch(task), device);
    const auto total = [&](AgentNetwork& network, const EpisodeBatch& of) {
      return sac_loss(network, of, torch::scalar_tensor(0.2f, device), 0.9).total.item<double>();
    };
    const auto network = network_in(torch::kFloat32, "none", task);
    network->to(device);
    CHECK_FALSE(std::isnan(total(*network, batch)));
    EpisodeBatch unrewarded = batch;
    unrewarded.reward_BT = batch.reward_BT.clone();
    unrewarded.reward_BT[1][0] = kNaN;
    CHECK(std::isnan(total(*network, unrewarded)));
    for (const std::string head : {"actor", "critic1", "critic2", "target_critic1", "target_critic2"}) {
      CAPTURE(head);
      const torch::NoGradGuard no_grad;
      Tensor bias = network->named_parameters()[head + ".output.bias"][1];  // of one action
      const Tensor before = bias.clone();
      bias.fill_(kNaN);
      CHECK(std::isnan(total(*network, batch)));
      bias.copy_(before);
    }
  }
}
