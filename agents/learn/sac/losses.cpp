#include "agents/learn/sac/losses.h"

#include "agents/learn/losses.h"

namespace engram::sac {
namespace {

constexpr double kMinProbability = 1e-8;

}  // namespace

torch::Tensor clamped_log(const torch::Tensor& probabilities) { return probabilities.clamp_min(kMinProbability).log(); }

torch::Tensor bellman_targets(const torch::Tensor& reward_BT, const torch::Tensor& terminated_BT,
                              const torch::Tensor& next_probabilities_BTA, const torch::Tensor& next_target_q1_BTA,
                              const torch::Tensor& next_target_q2_BTA, const torch::Tensor& alpha, double gamma) {
  const torch::NoGradGuard no_grad;
  const auto soft_q_BTA =
      torch::minimum(next_target_q1_BTA, next_target_q2_BTA) - alpha * clamped_log(next_probabilities_BTA);
  const auto next_value_BT = (next_probabilities_BTA * soft_q_BTA).sum(-1);
  return reward_BT + gamma * (1 - terminated_BT) * next_value_BT;
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
