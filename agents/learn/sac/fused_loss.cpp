#include "agents/learn/sac/fused_loss.h"

#include "agents/learn/fused_support.h"
#include "kernels/learner/sac_loss/sac_loss.h"
#include "nn/device/cuda_support.h"

namespace engram {

using torch::Tensor;

Support supports_fused_sac_loss(torch::Device device, torch::ScalarType outputs, std::int64_t num_actions) {
  return supports_fused_loss(device, outputs, num_actions, kMaxSacActions);
}

SacLoss fused_sac_loss(const SacHeads& heads, const EpisodeBatch& batch, const Tensor& alpha, double gamma,
                       std::int64_t num_actions) {
  const Tensor &logits = heads.logits, &q1 = heads.q.first, &q2 = heads.q.second;
  const auto like = [](const Tensor& x) { return torch::empty_like(x, torch::requires_grad(false)); };
  const Tensor losses = torch::empty({kSacLosses}, logits.options().requires_grad(false));
  const Tensor target_BT = like(batch.reward_BT), d_logits = like(logits), d_q1 = like(q1), d_q2 = like(q2);
  const SacLossInput input{.batch = static_cast<int>(logits.size(0)),
                           .time = static_cast<int>(logits.size(1)) - 1,
                           .actions = static_cast<int>(num_actions),
                           .stride = static_cast<int>(logits.size(2)),
                           .gamma = static_cast<float>(gamma),
                           .alpha = alpha.data_ptr<float>(),
                           .logits_BTA = logits.data_ptr<float>(),
                           .q1_BTA = q1.data_ptr<float>(),
                           .q2_BTA = q2.data_ptr<float>(),
                           .target_q1_BTA = heads.target_q.first.data_ptr<float>(),
                           .target_q2_BTA = heads.target_q.second.data_ptr<float>(),
                           .action_BT = batch.action_BT.data_ptr<std::int64_t>(),
                           .reward_BT = batch.reward_BT.data_ptr<float>(),
                           .terminated_BT = batch.terminated_BT.data_ptr<float>(),
                           .steps_B = batch.steps_B.data_ptr<std::int64_t>()};
  const Tensor scratch = scratch_bytes(sac_loss_scratch_bytes(input), logits);
  sac_loss(input,
           {.losses = losses.data_ptr<float>(),
            .target_BT = target_BT.data_ptr<float>(),
            .dtype = Dtype::kFloat32,
            .logits_BTA = d_logits.data_ptr(),
            .q1_BTA = d_q1.data_ptr(),
            .q2_BTA = d_q2.data_ptr()},
           scratch.data_ptr(), current_stream());
  return {.total = losses.select(0, kSacTotal),
          .critic = losses.select(0, kSacCritic),
          .critic1 = losses.select(0, kSacCritic1),
          .critic2 = losses.select(0, kSacCritic2),
          .actor = losses.select(0, kSacActor),
          .entropy = losses.select(0, kSacEntropy),
          .mean_q = losses.select(0, kSacMeanQ),
          .target_BT = target_BT,
          .outputs = {logits, q1, q2},
          .gradients = {d_logits, d_q1, d_q2}};
}

}  // namespace engram
