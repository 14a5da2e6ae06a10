#include "agents/learn/sac/losses.h"

namespace engram::sac {
namespace {

constexpr double kMinProbability = 1e-8;

}  // namespace

torch::Tensor clamped_log(const torch::Tensor& probabilities) { return probabilities.clamp_min(kMinProbability).log(); }

torch::Tensor masked_mean(const torch::Tensor& value_BT, const torch::Tensor& mask_BT) {
  return torch::where(mask_BT > 0, value_BT, 0).sum() / mask_BT.sum();
}

torch::Tensor bellman_targets(const torch::Tensor& reward_BT, const torch::Tensor& terminated_BT,
                              const torch::Tensor& next_probabilities_BTA, const torch::Tensor& next_target_q1_BTA,
                              const torch::Tensor& next_target_q2_BTA, const torch::Tensor& alpha, double gamma) {
  const torch::NoGradGuard no_grad;
  const auto soft_q_BTA =
      torch::minimum(next_target_q1_BTA, next_target_q2_BTA) - alpha * clamped_log(next_probabilities_BTA);
  const auto next_value_BT = (next_probabilities_BTA * soft_q_BTA).sum(-1);
  return reward_BT + gamma * (1 - terminated_BT) * next_value_BT;
}

torch::Tensor critic_loss(const torch::Tensor& q_BTA, const torch::Tensor& action_BT, const torch::Tensor& target_BT,
                          const torch::Tensor& mask_BT) {
  const auto taken_q_BT = q_BTA.gather(-1, action_BT.unsqueeze(-1)).squeeze(-1);
  // Masked before the square: after it, a NaN in the padding would reach the gradient as 0 * NaN.
  const auto error_BT = torch::where(mask_BT > 0, taken_q_BT - target_BT, 0);
  return error_BT.square().sum() / mask_BT.sum();
}

torch::Tensor actor_loss(const torch::Tensor& probabilities_BTA, const torch::Tensor& q1_BTA,
                         const torch::Tensor& q2_BTA, const torch::Tensor& alpha, const torch::Tensor& mask_BT) {
  const auto q_BTA = torch::minimum(q1_BTA.detach(), q2_BTA.detach());
  const auto cost_BTA = alpha.detach() * clamped_log(probabilities_BTA) - q_BTA;
  return masked_mean((probabilities_BTA * cost_BTA).sum(-1), mask_BT);
}

torch::Tensor mean_entropy(const torch::Tensor& probabilities_BTA, const torch::Tensor& mask_BT) {
  return masked_mean(-(probabilities_BTA * clamped_log(probabilities_BTA)).sum(-1), mask_BT);
}

}  // namespace engram::sac
