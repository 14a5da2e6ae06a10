#include "agents/play/episode.h"

namespace engram {

double Episode::total_reward() const {
  double total = 0;
  for (const float reward : rewards) total += reward;
  return total;
}

std::vector<torch::Tensor> EpisodeBatch::tensors() const {
  std::vector<torch::Tensor> all{
      observation, previous_action_BT1, previous_reward_BT1, action_BT, reward_BT, terminated_BT, steps_B, mask_BT};
  for (const torch::Tensor& column : {log_prob_BT, value_BT, advantage_BT})
    if (column.defined()) all.push_back(column);
  return all;
}

EpisodeBatch EpisodeBatch::of(const std::vector<torch::Tensor>& tensors) {
  const bool on_policy = tensors.size() > 8;
  return {.observation = tensors.at(0),
          .previous_action_BT1 = tensors.at(1),
          .previous_reward_BT1 = tensors.at(2),
          .action_BT = tensors.at(3),
          .reward_BT = tensors.at(4),
          .terminated_BT = tensors.at(5),
          .steps_B = tensors.at(6),
          .mask_BT = tensors.at(7),
          .log_prob_BT = on_policy ? tensors.at(8) : torch::Tensor(),
          .value_BT = on_policy ? tensors.at(9) : torch::Tensor(),
          .advantage_BT = on_policy ? tensors.at(10) : torch::Tensor()};
}

}  // namespace engram
