#include "agents/learn/ppo/advantages.h"

#include <cstdint>

#include "agents/learn/ppo/losses.h"
#include "kernels/learner/advantages/episode.h"

namespace engram {
namespace {

torch::Tensor advantages_on_cpu(const EpisodeBatch& batch, const torch::Tensor& value_BT1, double gamma,
                                double lambda) {
  const std::int64_t episodes = batch.reward_BT.size(0), steps = batch.reward_BT.size(1);
  const torch::Tensor reward_BT = batch.reward_BT.contiguous(), terminated_BT = batch.terminated_BT.contiguous(),
                      steps_B = batch.steps_B.contiguous(), advantage_BT = torch::empty_like(reward_BT);
  for (std::int64_t b = 0; b < episodes; ++b)
    estimate_advantages(
        reward_BT.const_data_ptr<float>() + b * steps, terminated_BT.const_data_ptr<float>() + b * steps,
        value_BT1.const_data_ptr<float>() + b * (steps + 1), steps_B.const_data_ptr<std::int64_t>()[b], steps,
        static_cast<float>(gamma), static_cast<float>(lambda), advantage_BT.data_ptr<float>() + b * steps);
  return advantage_BT;
}

}  // namespace

torch::Tensor advantages_of(const EpisodeBatch& batch, const torch::Tensor& value_BT1, double gamma, double lambda) {
  const torch::Tensor values_BT1 = value_BT1.detach().contiguous();
  return values_BT1.is_cuda() ? advantages_on_gpu(batch, values_BT1, gamma, lambda)
                              : advantages_on_cpu(batch, values_BT1, gamma, lambda);
}

}  // namespace engram
