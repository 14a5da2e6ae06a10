#include <stdexcept>
#include <string>

#include "kernels/common/cuda_support.h"
#include "kernels/learner/advantages/advantages.h"
#include "kernels/learner/advantages/episode.h"

namespace engram {
namespace {

constexpr int kThreads = 32;  // an episode each: what waits for memory is spread over many multiprocessors

__global__ void __launch_bounds__(kThreads)
    advantages_kernel(const AdvantageInput input, float* __restrict__ advantage_BT) {
  const int b = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (b >= input.batch) return;
  const std::int64_t first = std::int64_t{b} * input.time;
  estimate_advantages(input.reward_BT + first, input.terminated_BT + first, input.value_BT1 + first + b,
                      input.steps_B[b], input.time, input.gamma, input.lambda, advantage_BT + first);
}

}  // namespace

void estimate_advantages(const AdvantageInput& input, float* advantage_BT, cudaStream_t stream) {
  if (input.batch < 1 || input.time < 1)
    throw std::runtime_error("estimate_advantages: " + std::to_string(input.batch) + " episodes of " +
                             std::to_string(input.time) + " steps");
  const auto blocks = static_cast<unsigned>((input.batch + kThreads - 1) / kThreads);
  advantages_kernel<<<blocks, kThreads, 0, stream>>>(input, advantage_BT);
  check_cuda(cudaGetLastError(), "estimate_advantages");
}

}  // namespace engram
