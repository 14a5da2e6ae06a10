#include "agents/learn/ppo/cpu_loss.h"

#include <vector>

#include "agents/learn/ppo/row_weights.h"
#include "kernels/learner/ppo_loss/row.h"

namespace engram {
namespace {

using torch::Tensor;

// Sums over the valid steps.
struct PpoSums {
  double total = 0, actor = 0, critic = 0, entropy = 0, kl = 0, value = 0;
  std::int64_t clipped = 0, steps = 0;

  void add(const ppo_row::Row& row, float of_value) {
    total += row.total;
    actor += row.actor;
    critic += row.critic;
    entropy += row.entropy;
    kl += row.kl;
    value += of_value;
    clipped += row.clipped;
  }
};

PpoLoss means_of(const PpoSums& sums) {
  const auto mean = [&](double sum) {
    return torch::scalar_tensor(sum / static_cast<double>(sums.steps), torch::kFloat32);
  };
  return {.total = mean(sums.total),
          .actor = mean(sums.actor),
          .critic = mean(sums.critic),
          .entropy = mean(sums.entropy),
          .kl = mean(sums.kl),
          .clipped = mean(static_cast<double>(sums.clipped)),
          .value = mean(sums.value)};
}

}  // namespace

bool supports_cpu_ppo_loss(const PpoHeads& heads) {
  for (const Tensor* x : {&heads.logits, &heads.value})
    if (!x->is_cpu() || x->scalar_type() != torch::kFloat32) return false;
  return true;
}

PpoLoss cpu_ppo_loss(const PpoHeads& heads, const EpisodeBatch& batch, const PpoScales& scale_tensors,
                     const PpoWeights& weight_numbers, std::int64_t num_actions) {
  const std::int64_t episodes = heads.logits.size(0), rows = heads.logits.size(1), steps = rows - 1,
                     logits_stride = heads.logits.size(2), value_stride = heads.value.size(2);
  const auto actions = static_cast<int>(num_actions);
  const PpoRowWeights weights = row_weights(weight_numbers);
  const PpoRowScales scales{scale_tensors.mean.item<float>(), scale_tensors.deviation.item<float>(),
                            scale_tensors.kl_weight.item<float>()};
  std::vector<Tensor> kept;  // what the pointers point into
  const auto numbers = [&](const Tensor& x) {
    return kept.emplace_back(x.detach().to(torch::kFloat32).contiguous()).const_data_ptr<float>();
  };
  const auto integers = [&](const Tensor& x) {
    return kept.emplace_back(x.contiguous()).const_data_ptr<std::int64_t>();
  };
  const float *const logits = numbers(heads.logits), *const value = numbers(heads.value),
                     *const log_prob = numbers(batch.log_prob_BT), *const old_value = numbers(batch.value_BT),
                     *const advantage = numbers(batch.advantage_BT);
  const std::int64_t *const action = integers(batch.action_BT), *const steps_B = integers(batch.steps_B);
  const Tensor d_logits_BTA = torch::zeros(heads.logits.sizes(), torch::kFloat32),
               d_value_BTA = torch::zeros(heads.value.sizes(), torch::kFloat32);
  float *const d_logits = d_logits_BTA.data_ptr<float>(), *const d_value = d_value_BTA.data_ptr<float>();

  PpoSums sums;
  for (std::int64_t b = 0; b < episodes; ++b) sums.steps += steps_B[b];
  const auto share = static_cast<float>(1 / static_cast<double>(sums.steps));
  for (std::int64_t b = 0; b < episodes; ++b)
    for (std::int64_t t = 0; t < steps_B[b]; ++t) {
      const std::int64_t at = (b * rows + t) * logits_stride, of_value = (b * rows + t) * value_stride,
                         step = b * steps + t;
      const auto taken = static_cast<int>(action[step]);
      const ppo_row::Policy policy(logits + at, actions);
      const ppo_row::Row row = ppo_row::row(policy, actions, taken, log_prob[step], value[of_value], old_value[step],
                                            advantage[step], weights, scales);
      sums.add(row, value[of_value]);
      d_value[of_value] = row.d_value * share;
      for (int a = 0; a < actions; ++a)
        d_logits[at + a] = ppo_row::d_logit(policy, a, taken, row, weights.entropy_weight) * share;
    }
  PpoLoss loss = means_of(sums);
  loss.outputs = {heads.logits, heads.value};
  loss.gradients = {d_logits_BTA, d_value_BTA};
  return loss;
}

}  // namespace engram
