#include <stdexcept>
#include <string>

#include "kernels/common/tensor_core.cuh"
#include "kernels/learner/sac_loss/row.h"
#include "kernels/learner/sac_loss/sac_loss.h"

namespace engram {
namespace {

constexpr int kThreads = 256;

std::int64_t blocks_of(const SacLossInput& input) {
  return (std::int64_t{input.batch} * (input.time + 1) + kThreads - 1) / kThreads;
}

// The sum over a block's threads, in thread 0, in a fixed order.
__device__ float block_sum(float x, float* shared) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_down_sync(0xffffffffu, x, distance);
  __syncthreads();
  if (lane_id() == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float total = 0;
  if (threadIdx.x == 0)
    for (int i = 0; i < kThreads / 32; ++i) total += shared[i];
  return total;
}

// One thread for each row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    rows_kernel(SacLossInput input, SacLossOutput output, float* __restrict__ block_sums) {
  __shared__ float shared[kThreads / 32];
  __shared__ float inverse_steps;
  std::int64_t all_steps = 0;
  for (int b = threadIdx.x; b < input.batch; b += kThreads) all_steps += input.steps_B[b];
  const float steps = block_sum(static_cast<float>(all_steps), shared);
  if (threadIdx.x == 0) inverse_steps = 1.0f / steps;
  __syncthreads();

  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int rows = input.time + 1;
  const bool inside = row < std::int64_t{input.batch} * rows;
  const std::int64_t b = inside ? row / rows : 0, t = inside ? row % rows : 0;
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
  for (int i = 0; i < kSacLosses; ++i) {
    const float total = block_sum(sums[i], shared);
    if (threadIdx.x == 0) block_sums[std::int64_t{blockIdx.x} * kSacLosses + i] = total;
  }
}

__global__ void __launch_bounds__(kThreads)
    losses_kernel(const float* __restrict__ block_sums, std::int64_t blocks, float* __restrict__ losses) {
  __shared__ float shared[kThreads / 32];
  for (int i = 0; i < kSacLosses; ++i) {
    float sum = 0;
    for (std::int64_t block = threadIdx.x; block < blocks; block += kThreads) sum += block_sums[block * kSacLosses + i];
    const float total = block_sum(sum, shared);
    if (threadIdx.x == 0) losses[i] = total;
  }
}

}  // namespace

std::size_t sac_loss_scratch_bytes(const SacLossInput& input) {
  return static_cast<std::size_t>(blocks_of(input)) * kSacLosses * sizeof(float);
}

void sac_loss(const SacLossInput& input, const SacLossOutput& output, void* scratch, cudaStream_t stream) {
  if (input.batch < 1 || input.time < 1 || input.actions < 1 || input.actions > kMaxSacActions ||
      input.stride < input.actions)
    throw std::runtime_error("sac_loss: " + std::to_string(input.batch) + " episodes of " + std::to_string(input.time) +
                             " steps, " + std::to_string(input.actions) + " actions in rows of " +
                             std::to_string(input.stride));
  const std::int64_t blocks = blocks_of(input);
  auto* const block_sums = static_cast<float*>(scratch);
  dispatch_dtype(output.dtype, [&](auto element) {
    rows_kernel<decltype(element)><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(input, output, block_sums);
  });
  check_cuda(cudaGetLastError(), "sac_loss");
  losses_kernel<<<1, kThreads, 0, stream>>>(block_sums, blocks, output.losses);
  check_cuda(cudaGetLastError(), "sac_loss");
}

}  // namespace engram
