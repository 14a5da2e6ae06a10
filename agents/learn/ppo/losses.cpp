#include "agents/learn/ppo/losses.h"

#include "agents/learn/losses.h"
#include "agents/learn/ppo/advantages.h"
#include "agents/learn/ppo/cpu_loss.h"
#include "agents/learn/ppo/fused_loss.h"

namespace engram {
namespace {

using torch::Tensor;

// -min(r A', clip(r, 1 - clip, 1 + clip) A')
Tensor clipped_surrogate(const Tensor& excess_BT, const Tensor& advantage_BT, double clip) {
  const Tensor limited_BT = excess_BT.clamp(-clip, clip) + 1;
  return -torch::minimum((excess_BT + 1) * advantage_BT, limited_BT * advantage_BT);
}

Tensor value_errors(const Tensor& value_BT, const Tensor& old_BT, const Tensor& return_BT, const PpoWeights& weights) {
  Tensor error_BT = (value_BT - return_BT).square();
  if (weights.value_clip > 0) {
    const Tensor limited_BT = old_BT + (value_BT - old_BT).clamp(-weights.value_clip, weights.value_clip);
    error_BT = torch::maximum(error_BT, (limited_BT - return_BT).square());
  }
  return weights.value_error_bound > 0 ? error_BT.clamp_max(weights.value_error_bound) : error_BT;
}

// What the policy makes of the steps, [B, T].
struct Judged {
  Tensor log_prob_BT;  // of the action
  Tensor entropy_BT;
};

// Of x [B, T+1, ...] or [B, T, ...] the steps, 0 in the padding. It is wiped before it is computed with: later a NaN in
// it would reach the gradient as 0 * NaN.
Tensor steps_of(const Tensor& x, const EpisodeBatch& batch, torch::ScalarType dtype) {
  const Tensor valid_BT = batch.mask_BT > 0, x_BTX = x.narrow(1, 0, valid_BT.size(1)).to(dtype);
  return torch::where(x.dim() == 3 ? valid_BT.unsqueeze(-1) : valid_BT, x_BTX, 0);
}

PpoLoss loss_of(const Judged& policy, const Tensor& value, const EpisodeBatch& batch, const PpoScales& scales,
                const PpoWeights& weights) {
  const auto dtype = policy.log_prob_BT.scalar_type();
  const Tensor mask_BT = batch.mask_BT.to(dtype);
  const auto wiped = [&](const Tensor& x_BT) { return steps_of(x_BT, batch, dtype); };
  const Tensor value_BT = wiped(value.select(-1, 0));
  const Tensor old_value_BT = wiped(batch.value_BT), advantage_BT = wiped(batch.advantage_BT);
  const auto mean = [&](const Tensor& x_BT) { return masked_mean(x_BT, mask_BT); };

  const Tensor change_BT = policy.log_prob_BT - wiped(batch.log_prob_BT);
  const Tensor excess_BT = change_BT.expm1();  // r - 1, with all digits where it is small
  const Tensor normalised_BT = (advantage_BT - scales.mean) / scales.deviation;

  const Tensor actor = mean(clipped_surrogate(excess_BT, normalised_BT, weights.clip));
  const Tensor critic = mean(value_errors(value_BT, old_value_BT, advantage_BT + old_value_BT, weights));
  const Tensor entropy = mean(policy.entropy_BT);
  const Tensor kl = mean(excess_BT - change_BT);
  return {.total = actor + weights.value_weight * critic - weights.entropy_weight * entropy + scales.kl_weight * kl,
          .actor = actor.detach(),
          .critic = critic.detach(),
          .entropy = entropy.detach(),
          .kl = kl.detach(),
          .clipped = mean((excess_BT.detach().abs() > weights.clip).to(dtype)),
          .value = mean(value_BT.detach())};
}

}  // namespace

PpoLoss plain_ppo_loss(const PpoHeads& heads, const EpisodeBatch& batch, const PpoScales& scales,
                       const PpoWeights& weights, std::int64_t num_actions) {
  const Tensor log_policy_BTA =
      steps_of(columns(heads.logits, num_actions), batch, heads.logits.scalar_type()).log_softmax(-1);
  const Tensor action_BT = torch::where(batch.mask_BT > 0, batch.action_BT, 0);
  return loss_of(
      {.log_prob_BT = taken(log_policy_BTA, action_BT), .entropy_BT = -(log_policy_BTA.exp() * log_policy_BTA).sum(-1)},
      heads.value, batch, scales, weights);
}

PpoLoss normal_ppo_loss(const NormalPolicy& policy, const Tensor& value, const EpisodeBatch& batch,
                        const PpoScales& scales, const PpoWeights& weights) {
  const auto dtype = policy.mean.scalar_type();
  const Tensor log_deviation_A = policy.log_deviation.to(dtype);
  const Tensor z_BTA =
      (steps_of(batch.action_BT, batch, dtype) - steps_of(policy.mean, batch, dtype)) * (-log_deviation_A).exp();
  const Tensor log_prob_BT = (-0.5 * z_BTA.square() - log_deviation_A - kHalfLogTwoPi).sum(-1);
  return loss_of({.log_prob_BT = log_prob_BT, .entropy_BT = entropy_of(log_deviation_A).expand_as(log_prob_BT)}, value,
                 batch, scales, weights);
}

PpoLoss ppo_loss(const PpoHeads& heads, const EpisodeBatch& batch, const PpoScales& scales, const PpoWeights& weights,
                 std::int64_t num_actions, bool use_kernels) {
  if (use_kernels && supports_cpu_ppo_loss(heads)) return cpu_ppo_loss(heads, batch, scales, weights, num_actions);
  return use_kernels && supports_fused_ppo_loss(heads.logits.device(), heads.logits.scalar_type(), num_actions)
             ? fused_ppo_loss(heads, batch, scales, weights, num_actions)
             : plain_ppo_loss(heads, batch, scales, weights, num_actions);
}

}  // namespace engram
