#include <stdexcept>
#include <string>

#include "kernels/learner/row_losses.cuh"
#include "kernels/learner/sac_loss/row.h"
#include "kernels/learner/sac_loss/sac_loss.h"

namespace engram {
namespace {

using row_losses::kThreads;

// One thread for each row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    rows_kernel(SacLossInput input, SacLossOutput output, float* __restrict__ block_sums) {
  const float inverse_steps = row_losses::inverse_of_all_steps(input.steps_B, input.batch);
  const auto [row, b, t, inside] = row_losses::own_row(input.batch, input.time);
  float sums[kSacLosses] = {};
  if (inside && t < input.steps_B[b]) {
    const int actions = input.actions;
    const float alpha = *input.alpha;
    const std::int64_t at = row * input.stride, next = at + input.stride, step = b * input.time + t;

    const float next_value =
        sac_row::soft_value(sac_row::Softmax(input.logits_BTA + next, actions), input.target_q1_BTA + next,
                            input.target_q2_BTA + next, actions, alpha);
    const float target = input.reward_BT[step] + input.gamma * (1.0f - input.terminated_BT[step]) * next_value;
    output.target_BT[step] = target;
    const int taken = static_cast<int>(input.action_BT[step]);
    const float error1 = input.q1_BTA[at + taken] - target, error2 = input.q2_BTA[at + taken] - target;

    const sac_row::Softmax policy(input.logits_BTA + at, actions);
    const float *const q1 = input.q1_BTA + at, *const q2 = input.q2_BTA + at;
    const sac_row::Actor actor = sac_row::actor(policy, q1, q2, actions, alpha);
    for (int a = 0; a < input.stride; ++a) {
      float d_logit = 0, d_q1 = 0, d_q2 = 0;
      if (a < actions) {
        d_logit = sac_row::d_logit(policy(a), q1[a], q2[a], alpha, actor.mean_slope) * inverse_steps;
        d_q1 = a == taken ? error1 * inverse_steps : 0.0f;
        d_q2 = a == taken ? error2 * inverse_steps : 0.0f;
      }
      static_cast<T*>(output.logits_BTA)[at + a] = static_cast<T>(d_logit);
      static_cast<T*>(output.q1_BTA)[at + a] = static_cast<T>(d_q1);
      static_cast<T*>(output.q2_BTA)[at + a] = static_cast<T>(d_q2);
    }
    sums[kSacCritic1] = error1 * error1 * inverse_steps;
    sums[kSacCritic2] = error2 * error2 * inverse_steps;
    sums[kSacActor] = actor.loss * inverse_steps;
    sums[kSacEntropy] = actor.entropy * inverse_steps;
    sums[kSacMeanQ] = input.q1_BTA[at + taken] * inverse_steps;
    sums[kSacCritic] = 0.5f * (sums[kSacCritic1] + sums[kSacCritic2]);
    sums[kSacTotal] = sums[kSacCritic] + sums[kSacActor];
  } else if (inside) {
    if (t < input.time) output.target_BT[b * input.time + t] = 0.0f;
    for (int a = 0; a < input.stride; ++a) {
      static_cast<T*>(output.logits_BTA)[row * input.stride + a] = static_cast<T>(0.0f);
      static_cast<T*>(output.q1_BTA)[row * input.stride + a] = static_cast<T>(0.0f);
      static_cast<T*>(output.q2_BTA)[row * input.stride + a] = static_cast<T>(0.0f);
    }
  }
  row_losses::keep_block_sums(sums, block_sums);
}

}  // namespace

std::size_t sac_loss_scratch_bytes(const SacLossInput& input) {
  return static_cast<std::size_t>(row_losses::blocks_of(input.batch, input.time)) * kSacLosses * sizeof(float);
}

void sac_loss(const SacLossInput& input, const SacLossOutput& output, void* scratch, cudaStream_t stream) {
  if (input.batch < 1 || input.time < 1 || input.actions < 1 || input.actions > kMaxSacActions ||
      input.stride < input.actions)
    throw std::runtime_error("sac_loss: " + std::to_string(input.batch) + " episodes of " + std::to_string(input.time) +
                             " steps, " + std::to_string(input.actions) + " actions in rows of " +
                             std::to_string(input.stride));
  const std::int64_t blocks = row_losses::blocks_of(input.batch, input.time);
  auto* const block_sums = static_cast<float*>(scratch);
  dispatch_dtype(output.dtype, [&](auto element) {
    rows_kernel<decltype(element)><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(input, output, block_sums);
  });
  check_cuda(cudaGetLastError(), "sac_loss");
  row_losses::losses_kernel<kSacLosses><<<1, kThreads, 0, stream>>>(block_sums, blocks, output.losses);
  check_cuda(cudaGetLastError(), "sac_loss");
}

}  // namespace engram
