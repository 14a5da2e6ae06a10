#include <cstdint>

#include "agents/learn/ppo/advantages.h"
#include "kernels/learner/advantages/advantages.h"
#include "nn/device/cuda_support.h"

namespace engram {

torch::Tensor advantages_on_gpu(const EpisodeBatch& batch, const torch::Tensor& value_BT1, double gamma,
                                double lambda) {
  const torch::Tensor advantage_BT = torch::empty_like(batch.reward_BT);
  estimate_advantages({.batch = static_cast<int>(batch.reward_BT.size(0)),
                       .time = static_cast<int>(batch.reward_BT.size(1)),
                       .gamma = static_cast<float>(gamma),
                       .lambda = static_cast<float>(lambda),
                       .reward_BT = batch.reward_BT.const_data_ptr<float>(),
                       .terminated_BT = batch.terminated_BT.const_data_ptr<float>(),
                       .value_BT1 = value_BT1.const_data_ptr<float>(),
                       .steps_B = batch.steps_B.const_data_ptr<std::int64_t>()},
                      advantage_BT.data_ptr<float>(), current_stream());
  return advantage_BT;
}

torch::Tensor moments_on_gpu(const EpisodeBatch& batch, const torch::Tensor& advantage_given) {
  const torch::Tensor advantage_BT = advantage_given.contiguous();
  const auto doubles = advantage_BT.options().dtype(torch::kFloat64);
  const torch::Tensor moments = torch::empty({kAdvantageMoments}, doubles),
                      scratch = torch::empty({kAdvantageMomentsScratch}, doubles);
  advantage_moments(static_cast<int>(advantage_BT.size(0)), static_cast<int>(advantage_BT.size(1)),
                    advantage_BT.const_data_ptr<float>(), batch.steps_B.const_data_ptr<std::int64_t>(),
                    moments.data_ptr<double>(), scratch.data_ptr<double>(), current_stream());
  return moments;
}

}  // namespace engram
