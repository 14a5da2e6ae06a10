// How far the probabilities with which an agent has acted are from those with which it learns.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "agents/learn/losses.h"
#include "agents/learn/ppo/losses.h"
#include "agents/play/episode_store.h"
#include "agents/play/rollout.h"
#include "agents/run/trained/trained_agent.h"
#include "tests/agents/act/small_agent.h"

namespace engram::testing {

struct OwnRatios {
  double largest, mean;  // of |r - 1| over the steps, r the ratio of PPO before anything is learnt
  double spread;         // of the policy's log-probabilities over an episode
};

// Of episodes that an agent of this memory plays on `device`, its weights far from where they are at first.
inline OwnRatios own_ratios(const std::string& backbone, torch::Device device, const std::string& precision) {
  const Config config = Config::from_settings({{"learner.name", "ppo"},
                                               {"memory.name", backbone},
                                               {"task.name", "repeat_previous"},
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
  const torch::Tensor log_BTA = columns(heads.logits, config.task.info().num_actions())
                                    .narrow(1, 0, batch.action_BT.size(1))
                                    .to(torch::kFloat32)
                                    .log_softmax(-1);
  const torch::Tensor off_BT = (taken(log_BTA, batch.action_BT) - batch.log_prob_BT).exp() - 1;
  const torch::Tensor error_BT = torch::where(batch.mask_BT > 0, off_BT, 0).abs();
  return {error_BT.max().item<double>(), masked_mean(error_BT, batch.mask_BT).item<double>(),
          log_BTA.std(1).max().item<double>()};
}

}  // namespace engram::testing
