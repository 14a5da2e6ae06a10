#include <stdexcept>
#include <string>

#include "kernels/learner/ppo_loss/ppo_loss.h"
#include "kernels/learner/ppo_loss/row.h"
#include "kernels/learner/row_losses.cuh"

namespace engram {
namespace {

using row_losses::kThreads;

struct OfRow {
  ppo_row::Row row;
  float value;
};

// The losses of a valid row, after its gradients are written.
__device__ OfRow learn_from_row(const PpoLossInput& input, const PpoLossOutput& output,
                                const row_losses::RowPlace& place, float inverse_steps) {
  const std::int64_t at = place.row * input.stride, of_value = place.row * input.value_stride,
                     step = place.b * input.time + place.t;
  const int taken = static_cast<int>(input.action_BT[step]);
  const float value = input.value_BTA[of_value];
  const ppo_row::Policy policy(input.logits_BTA + at, input.actions);
  const ppo_row::Row row =
      ppo_row::row(policy, input.actions, taken, input.log_prob_BT[step], value, input.old_value_BT[step],
                   input.advantage_BT[step], input.weights, {*input.mean, *input.deviation, *input.kl_weight});
  for (int a = 0; a < input.stride; ++a)
    output.logits_BTA[at + a] =
        a < input.actions ? ppo_row::d_logit(policy, a, taken, row, input.weights.entropy_weight) * inverse_steps : 0;
  for (int a = 0; a < input.value_stride; ++a)
    output.value_BTA[of_value + a] = a == 0 ? row.d_value * inverse_steps : 0;
  return {row, value};
}

__device__ void clear_row(const PpoLossInput& input, const PpoLossOutput& output, std::int64_t row) {
  for (int a = 0; a < input.stride; ++a) output.logits_BTA[row * input.stride + a] = 0;
  for (int a = 0; a < input.value_stride; ++a) output.value_BTA[row * input.value_stride + a] = 0;
}

__global__ void __launch_bounds__(kThreads)
    rows_kernel(PpoLossInput input, PpoLossOutput output, float* __restrict__ block_sums) {
  const float inverse_steps = row_losses::inverse_of_all_steps(input.steps_B, input.batch);
  const row_losses::RowPlace place = row_losses::own_row(input.batch, input.time);
  float sums[kPpoLosses] = {};
  if (place.inside && place.t < input.steps_B[place.b]) {
    const auto [row, value] = learn_from_row(input, output, place, inverse_steps);
    sums[kPpoTotal] = row.total * inverse_steps;
    sums[kPpoActor] = row.actor * inverse_steps;
    sums[kPpoCritic] = row.critic * inverse_steps;
    sums[kPpoEntropy] = row.entropy * inverse_steps;
    sums[kPpoKl] = row.kl * inverse_steps;
    sums[kPpoClipped] = row.clipped ? inverse_steps : 0;
    sums[kPpoValue] = value * inverse_steps;
  } else if (place.inside) {
    clear_row(input, output, place.row);
  }
  row_losses::keep_block_sums(sums, block_sums);
}

void check_shape(const PpoLossInput& input) {
  if (input.batch >= 1 && input.time >= 1 && input.actions >= 1 && input.actions <= kMaxPpoActions &&
      input.stride >= input.actions && input.value_stride >= 1)
    return;
  throw std::runtime_error("ppo_loss: " + std::to_string(input.batch) + " episodes of " + std::to_string(input.time) +
                           " steps, " + std::to_string(input.actions) + " actions in rows of " +
                           std::to_string(input.stride) + ", values in rows of " + std::to_string(input.value_stride));
}

}  // namespace

std::size_t ppo_loss_scratch_bytes(const PpoLossInput& input) {
  return static_cast<std::size_t>(row_losses::blocks_of(input.batch, input.time)) * kPpoLosses * sizeof(float);
}

void ppo_loss(const PpoLossInput& input, const PpoLossOutput& output, void* scratch, cudaStream_t stream) {
  check_shape(input);
  const std::int64_t blocks = row_losses::blocks_of(input.batch, input.time);
  auto* const block_sums = static_cast<float*>(scratch);
  rows_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(input, output, block_sums);
  check_cuda(cudaGetLastError(), "ppo_loss");
  row_losses::losses_kernel<kPpoLosses><<<1, kThreads, 0, stream>>>(block_sums, blocks, output.losses);
  check_cuda(cudaGetLastError(), "ppo_loss");
}

}  // namespace engram
