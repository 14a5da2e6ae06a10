#include "agents/learn/losses.h"

#include <vector>

namespace engram {

torch::Tensor features_of(AgentNetwork& network, const EpisodeBatch& batch) {
  const std::int64_t rows = batch.previous_action_BT1.size(1);
  const torch::Tensor lengths_B = batch.steps_B + 1;
  // The padding is wiped where it comes in: after the first product a NaN would reach the gradient as 0 * NaN. An
  // image's bytes are finite.
  const auto without_padding = [&](const torch::Tensor& x_BT1) {
    std::vector<std::int64_t> shape(x_BT1.dim(), 1);
    shape[0] = lengths_B.size(0);
    shape[1] = rows;
    const torch::Tensor padding_BT1 = torch::arange(rows, lengths_B.options()) >= lengths_B.unsqueeze(1);
    return x_BT1.masked_fill(padding_BT1.reshape(shape), 0);
  };
  const torch::Tensor& observation = batch.observation;
  const torch::Tensor encoded_BTD = network.encode(
      observation.is_floating_point() ? without_padding(observation) : observation, batch.previous_action_BT1,
      network.sees_previous_reward() ? without_padding(batch.previous_reward_BT1) : batch.previous_reward_BT1);
  return network.features(encoded_BTD, lengths_B);
}

torch::Tensor masked_mean(const torch::Tensor& value_BT, const torch::Tensor& mask_BT) {
  return torch::where(mask_BT > 0, value_BT, 0).sum() / mask_BT.sum();
}

torch::Tensor critic_loss(const torch::Tensor& q_BTA, const torch::Tensor& action_BT, const torch::Tensor& target_BT,
                          const torch::Tensor& mask_BT) {
  // Masked before the square: after it, a NaN in the padding would reach the gradient as 0 * NaN.
  const torch::Tensor error_BT = torch::where(mask_BT > 0, taken(q_BTA, action_BT) - target_BT, 0);
  return error_BT.square().sum() / mask_BT.sum();
}

Road loss_road_of(const AgentNetwork& network, torch::Device device, const Support& kernel) {
  if (!network.uses_kernels()) return {"loss", "LibTorch in float32", "run.kernels is off"};
  if (!kernel) return {"loss", device.is_cpu() ? "own loops in float32" : "LibTorch in float32", kernel.reason()};
  return {"loss", "one kernel in float32", "", /*fast=*/true};
}

}  // namespace engram
