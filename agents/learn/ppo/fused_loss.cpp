#include "agents/learn/ppo/fused_loss.h"

#include "agents/learn/fused_support.h"
#include "agents/learn/ppo/row_weights.h"
#include "kernels/learner/ppo_loss/ppo_loss.h"
#include "nn/device/cuda_support.h"

namespace engram {

using torch::Tensor;

Support supports_fused_ppo_loss(torch::Device device, torch::ScalarType outputs, std::int64_t num_actions) {
  return supports_fused_loss(device, outputs, num_actions, kMaxPpoActions);
}

PpoLoss fused_ppo_loss(const PpoHeads& heads, const EpisodeBatch& batch, const PpoScales& scales,
                       const PpoWeights& weights, std::int64_t num_actions) {
  const Tensor logits = heads.logits.detach().contiguous(), value = heads.value.detach().contiguous();
  const Tensor losses = torch::empty({kPpoLosses}, logits.options()), d_logits = torch::empty_like(logits),
               d_value = torch::empty_like(value);
  const PpoLossInput input{.batch = static_cast<int>(logits.size(0)),
                           .time = static_cast<int>(logits.size(1)) - 1,
                           .actions = static_cast<int>(num_actions),
                           .stride = static_cast<int>(logits.size(2)),
                           .value_stride = static_cast<int>(value.size(2)),
                           .weights = row_weights(weights),
                           .mean = scales.mean.const_data_ptr<float>(),
                           .deviation = scales.deviation.const_data_ptr<float>(),
                           .kl_weight = scales.kl_weight.const_data_ptr<float>(),
                           .logits_BTA = logits.const_data_ptr<float>(),
                           .value_BTA = value.const_data_ptr<float>(),
                           .action_BT = batch.action_BT.const_data_ptr<std::int64_t>(),
                           .log_prob_BT = batch.log_prob_BT.const_data_ptr<float>(),
                           .old_value_BT = batch.value_BT.const_data_ptr<float>(),
                           .advantage_BT = batch.advantage_BT.const_data_ptr<float>(),
                           .steps_B = batch.steps_B.const_data_ptr<std::int64_t>()};
  const Tensor scratch = scratch_bytes(ppo_loss_scratch_bytes(input), logits);
  ppo_loss(input,
           {.losses = losses.data_ptr<float>(),
            .logits_BTA = d_logits.data_ptr<float>(),
            .value_BTA = d_value.data_ptr<float>()},
           scratch.data_ptr(), current_stream());
  return {.total = losses.select(0, kPpoTotal),
          .actor = losses.select(0, kPpoActor),
          .critic = losses.select(0, kPpoCritic),
          .entropy = losses.select(0, kPpoEntropy),
          .kl = losses.select(0, kPpoKl),
          .clipped = losses.select(0, kPpoClipped),
          .value = losses.select(0, kPpoValue),
          .outputs = {heads.logits, heads.value},
          .gradients = {d_logits, d_value}};
}

}  // namespace engram
