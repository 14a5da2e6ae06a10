// How far the probabilities with which an agent has acted are from those with which it learns.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

#include "agents/learn/losses.h"
#include "agents/learn/ppo/losses.h"
#include "agents/play/episode_store.h"
#include "agents/play/rollout.h"
#include "agents/run/trained/trained_agent.h"
#include "tests/agents/act/small_agent.h"

namespace engram::testing {

// Of each number of a continuous action, [B, T, A].
inline torch::Tensor log_densities(AgentNetwork& network, const torch::Tensor& outputs_BTA,
                                   const torch::Tensor& action_BTA) {
  const torch::Tensor deviation_A = network.action_log_deviations().exp();
  const torch::Tensor z_BTA = (action_BTA - network.action_means(outputs_BTA)) / deviation_A;
  return -z_BTA.square() / 2 - deviation_A.log() - std::log(2 * std::numbers::pi) / 2;
}

struct OwnRatios {
  double largest, mean;  // of |r - 1| over the steps, r the ratio of PPO before anything is learnt
  double spread;         // of the policy's log-probabilities over an episode
};

// Of episodes that an agent of this memory plays on `device`, its weights far from where they are at first.
inline OwnRatios own_ratios(const std::string& backbone, torch::Device device, const std::string& precision,
                            const std::string& task = "repeat_previous") {
  const Config config = Config::from_settings({{"learner.name", "ppo"},
                                               {"memory.name", backbone},
                                               {"task.name", task},
                                               {"network.previous_action_width", "3"},
                                               {"network.first_step_mark", "true"},
                                               {"network.hidden_width", "16"},
                                               {"run.precision", precision}});
  constexpr int kEnvs = 3;
  auto network = draw_network(config, config.task.info(), torch::kCPU);
  scatter_weights(*network, 0.1);
  network->to(device);
  network->compute_in(compute_dtype(config, device));
  network->train();
  auto rollout = make_rollout(config, network, device, Purpose::kTraining, kEnvs, 1);
  EpisodeStore store = EpisodeStore::of_iterations(config.task.info(), 1000, device);
  while (store.episodes() < kEnvs) {
    const Rollout::Played played = rollout->play(ActionChoice::kSample);
    rollout->run([&] { store.add(rollout->recording(), played.episodes); });
  }
  const EpisodeBatch batch = store.gather({0, 1, 2});
  const torch::NoGradGuard no_grad;
  const PpoHeads heads = PpoHeads::of(network->heads(features_of(*network, batch)));
  const torch::Tensor outputs_BTA =
      columns(heads.logits, network->num_actions()).narrow(1, 0, batch.action_BT.size(1)).to(torch::kFloat32);
  const torch::Tensor log_BTA =
      network->continuous() ? log_densities(*network, outputs_BTA, batch.action_BT) : outputs_BTA.log_softmax(-1);
  const torch::Tensor log_prob_BT = network->continuous() ? log_BTA.sum(-1) : taken(log_BTA, batch.action_BT);
  const torch::Tensor off_BT = (log_prob_BT - batch.log_prob_BT).exp() - 1;
  const torch::Tensor error_BT = torch::where(batch.mask_BT > 0, off_BT, 0).abs();
  return {error_BT.max().item<double>(), masked_mean(error_BT, batch.mask_BT).item<double>(),
          log_BTA.std(1).max().item<double>()};
}

}  // namespace engram::testing
