#include "agents/learn/sac/cpu_loss.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/learner/sac_loss/row.h"

namespace engram {
namespace {

using torch::Tensor;

// [actions] -> [actions]
void softmax_of(const float* logits, int actions, float* probabilities) {
  const sac_row::Softmax softmax(logits, actions);
  for (int a = 0; a < actions; ++a) probabilities[a] = softmax(a);
}

}  // namespace

bool supports_cpu_sac_loss(const SacHeads& heads) {
  for (const Tensor* x :
       {&heads.logits, &heads.q.first, &heads.q.second, &heads.target_q.first, &heads.target_q.second})
    if (!x->is_cpu() || x->scalar_type() != torch::kFloat32) return false;
  return true;
}

SacLoss cpu_sac_loss(const SacHeads& heads, const EpisodeBatch& batch, const Tensor& alpha_tensor, double gamma) {
  const std::int64_t episodes = heads.logits.size(0), steps = heads.logits.size(1) - 1;
  const auto actions = static_cast<int>(heads.logits.size(2));
  std::vector<Tensor> kept;  // what the pointers point into
  const auto numbers = [&](const Tensor& x) {
    return kept.emplace_back(x.detach().to(torch::kFloat32).contiguous()).const_data_ptr<float>();
  };
  const auto integers = [&](const Tensor& x) {
    return kept.emplace_back(x.contiguous()).const_data_ptr<std::int64_t>();
  };
  const float *const logits = numbers(heads.logits), *const q1 = numbers(heads.q.first),
                     *const q2 = numbers(heads.q.second), *const target_q1 = numbers(heads.target_q.first),
                     *const target_q2 = numbers(heads.target_q.second), *const reward = numbers(batch.reward_BT),
                     *const terminated = numbers(batch.terminated_BT);
  const std::int64_t *const action = integers(batch.action_BT), *const steps_B = integers(batch.steps_B);
  const float alpha = alpha_tensor.item<float>(), discount = static_cast<float>(gamma);

  std::int64_t valid = 0;
  for (std::int64_t b = 0; b < episodes; ++b) valid += steps_B[b];
  const double inverse = 1 / static_cast<double>(valid);
  const auto scale = static_cast<float>(inverse);

  const auto zeros = [](const Tensor& x) { return torch::zeros(x.sizes(), torch::kFloat32); };
  SacLoss loss;
  loss.target_BT = zeros(batch.reward_BT);
  loss.outputs = {heads.logits, heads.q.first, heads.q.second};
  loss.gradients = {zeros(heads.logits), zeros(heads.q.first), zeros(heads.q.second)};
  float *const target_BT = loss.target_BT.data_ptr<float>(), *const d_logits = loss.gradients[0].data_ptr<float>(),
               *const d_q1 = loss.gradients[1].data_ptr<float>(), *const d_q2 = loss.gradients[2].data_ptr<float>();

  double critic1 = 0, critic2 = 0, actor = 0, entropy = 0, mean_q = 0;
  std::vector<float> now(static_cast<std::size_t>(actions)), next = now;
  for (std::int64_t b = 0; b < episodes; ++b) {
    for (std::int64_t t = 0; t < steps_B[b]; ++t) {
      const std::int64_t at = (b * (steps + 1) + t) * actions, after = at + actions, step = b * steps + t;
      // A row is the next one of the row before.
      if (t == 0)
        softmax_of(logits + at, actions, now.data());
      else
        now.swap(next);
      softmax_of(logits + after, actions, next.data());
      const float value =
          sac_row::soft_value([&](int a) { return next[a]; }, target_q1 + after, target_q2 + after, actions, alpha);
      const float target = reward[step] + discount * (1 - terminated[step]) * value;
      target_BT[step] = target;

      const std::int64_t taken = at + action[step];
      const float error1 = q1[taken] - target, error2 = q2[taken] - target;
      d_q1[taken] = error1 * scale;
      d_q2[taken] = error2 * scale;
      critic1 += static_cast<double>(error1) * error1;
      critic2 += static_cast<double>(error2) * error2;
      mean_q += q1[taken];

      const sac_row::Actor row = sac_row::actor([&](int a) { return now[a]; }, q1 + at, q2 + at, actions, alpha);
      for (int a = 0; a < actions; ++a)
        d_logits[at + a] = sac_row::d_logit(now[a], q1[at + a], q2[at + a], alpha, row.mean_slope) * scale;
      actor += row.loss;
      entropy += row.entropy;
    }
  }
  const auto scalar = [&](double sum) { return torch::scalar_tensor(sum * inverse, torch::kFloat32); };
  loss.critic1 = scalar(critic1);
  loss.critic2 = scalar(critic2);
  loss.critic = 0.5 * (loss.critic1 + loss.critic2);
  loss.actor = scalar(actor);
  loss.entropy = scalar(entropy);
  loss.mean_q = scalar(mean_q);
  loss.total = scalar(0.5 * (critic1 + critic2) + actor);
  return loss;
}

}  // namespace engram
