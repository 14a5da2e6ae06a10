#include <cmath>
#include <stdexcept>
#include <string>

#include "base/sample_action.h"
#include "kernels/acting/choose_action/choose_action.h"
#include "kernels/common/cuda_support.h"
#include "kernels/common/early_launch.h"

namespace engram {
namespace {

constexpr int kWarps = 4;
constexpr int kNearActions = 64;  // so many are chosen from in shared memory

__device__ float warp_sum(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
  return x;
}
__device__ float warp_max(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, distance));
  return x;
}

// One warp a row; its first lane chooses.
__global__ void __launch_bounds__(kWarps * 32) choose_kernel(const __grid_constant__ ChooseAction choice) {
  __shared__ float near[kWarps][kNearActions];
  wait_for_previous_kernel();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + warp;
  if (row >= choice.rows) return;
  const int actions = choice.actions;
  const float* logits = choice.logits_NA + row * choice.logits_stride;
  float* written = choice.probabilities_NA + row * actions;
  float* probabilities = actions <= kNearActions ? near[warp] : written;

  float largest = -INFINITY, total = 0;
  for (int a = lane; a < actions; a += 32) largest = fmaxf(largest, logits[a]);
  largest = warp_max(largest);
  for (int a = lane; a < actions; a += 32) total += expf(logits[a] - largest);
  total = warp_sum(total);
  bool finite = true;
  for (int a = lane; a < actions; a += 32) {
    const float probability = expf(logits[a] - largest) / total;
    finite = finite && isfinite(probability);
    written[a] = probability;
    probabilities[a] = probability;
  }
  finite = __all_sync(~0u, finite);
  __syncwarp();
  if (lane != 0) return;
  if (!finite) *choice.diverged = 1;
  choice.fresh_N[row] = 0;
  choice.action_N[row] = choice.greedy ? greedy_action(probabilities, actions)
                                       : sample_action(probabilities, actions, choice.stream_N[row]);
}

}  // namespace

void choose_action(const ChooseAction& choice, cudaStream_t stream) {
  if (choice.rows < 0 || choice.actions < 1 || choice.logits_stride < choice.actions)
    throw std::runtime_error("choose_action: " + std::to_string(choice.rows) + " rows of " +
                             std::to_string(choice.actions) + " actions, " + std::to_string(choice.logits_stride) +
                             " apart");
  if (choice.rows == 0) return;
  const auto blocks = static_cast<unsigned>((choice.rows + kWarps - 1) / kWarps);
  launch_early<choose_kernel>(dim3(blocks), dim3(kWarps * 32), 0, stream, "choose_action", choice);
}

}  // namespace engram
