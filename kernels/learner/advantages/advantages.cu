#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/common/cuda_support.h"
#include "kernels/learner/advantages/advantages.h"
#include "kernels/learner/advantages/episode.h"
#include "kernels/learner/row_losses.cuh"

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

constexpr int kMomentThreads = row_losses::kThreads, kMostBlocks = kAdvantageMomentsScratch / kAdvantageMoments;

// The block's sums of the threads' own.
__device__ void keep_sums(double (&own)[kAdvantageMoments], double* sums) {
  row_losses::block_sums_of(own, [&](int i, double sum) { sums[i] = sum; });
}

__global__ void __launch_bounds__(kMomentThreads)
    moments_kernel(int batch, int time, const float* __restrict__ advantage_BT,
                   const std::int64_t* __restrict__ steps_B, double* sums_of_blocks) {
  double own[kAdvantageMoments] = {};
  const std::int64_t all = std::int64_t{batch} * time, threads = std::int64_t{gridDim.x} * kMomentThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kMomentThreads + threadIdx.x; i < all; i += threads) {
    if (i % time >= steps_B[i / time]) continue;
    const double advantage = advantage_BT[i];
    own[0] += 1, own[1] += advantage, own[2] += advantage * advantage;
  }
  keep_sums(own, sums_of_blocks + blockIdx.x * kAdvantageMoments);
}

__global__ void __launch_bounds__(kMomentThreads)
    moments_of_blocks_kernel(const double* sums_of_blocks, int blocks, double* moments) {
  double own[kAdvantageMoments] = {};
  for (int block = static_cast<int>(threadIdx.x); block < blocks; block += kMomentThreads)
    for (int i = 0; i < kAdvantageMoments; ++i) own[i] += sums_of_blocks[block * kAdvantageMoments + i];
  keep_sums(own, moments);
}

void check_sizes(int batch, int time, const char* what) {
  if (batch < 1 || time < 1)
    throw std::runtime_error(std::string(what) + ": " + std::to_string(batch) + " episodes of " + std::to_string(time) +
                             " steps");
}

}  // namespace

void advantage_moments(int batch, int time, const float* advantage_BT, const std::int64_t* steps_B, double* moments,
                       double* scratch, cudaStream_t stream) {
  check_sizes(batch, time, "advantage_moments");
  const std::int64_t wanted = (std::int64_t{batch} * time + kMomentThreads - 1) / kMomentThreads;
  const int blocks = static_cast<int>(std::min<std::int64_t>(wanted, kMostBlocks));
  moments_kernel<<<static_cast<unsigned>(blocks), kMomentThreads, 0, stream>>>(batch, time, advantage_BT, steps_B,
                                                                               scratch);
  check_cuda(cudaGetLastError(), "advantage_moments");
  moments_of_blocks_kernel<<<1, kMomentThreads, 0, stream>>>(scratch, blocks, moments);
  check_cuda(cudaGetLastError(), "advantage_moments");
}

void estimate_advantages(const AdvantageInput& input, float* advantage_BT, cudaStream_t stream) {
  check_sizes(input.batch, input.time, "estimate_advantages");
  const auto blocks = static_cast<unsigned>((input.batch + kThreads - 1) / kThreads);
  advantages_kernel<<<blocks, kThreads, 0, stream>>>(input, advantage_BT);
  check_cuda(cudaGetLastError(), "estimate_advantages");
}

}  // namespace engram
