#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/common/cuda_support.h"
#include "kernels/common/launch_parts.cuh"
#include "kernels/learner/adam/adam.h"

namespace engram {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 4 * kThreads;  // of one tensor, a block
constexpr int kTensors = 64;             // a launch: as many as its parameters hold
constexpr double kBeta1 = 0.9, kBeta2 = 0.999;
constexpr float kEpsilon = 1e-8f;

struct Launch {
  AdamTensor tensor[kTensors];
  int first_block[kTensors];
  int count;
};

// One thread.
__global__ void count_kernel(float* step, const float* skip) {
  if (skip == nullptr || *skip == 0) *step += 1;
}

__global__ void __launch_bounds__(kThreads)
    adam_kernel(Launch launch, const float* rate_now, float weight_decay, const float* step, const float* skip) {
  if (skip != nullptr && *skip != 0) return;
  const float learning_rate = *rate_now;
  __shared__ float rate, inverse_correction;
  if (threadIdx.x == 0) {
    const double t = *step;
    rate = static_cast<float>(static_cast<double>(learning_rate) / (1 - pow(kBeta1, t)));
    inverse_correction = static_cast<float>(1 / sqrt(1 - pow(kBeta2, t)));
  }
  const int own = part_of_block<kTensors>(launch.count, [&](int i) { return launch.first_block[i]; });
  const AdamTensor& tensor = launch.tensor[own];
  const std::int64_t first =
      std::int64_t{static_cast<int>(blockIdx.x) - launch.first_block[own]} * kElements + threadIdx.x;
  constexpr int kOfThread = kElements / kThreads;
  float g[kOfThread], m[kOfThread], v[kOfThread], x[kOfThread];  // all are asked for before the first is written
#pragma unroll
  for (int j = 0; j < kOfThread; ++j) {
    const std::int64_t i = first + j * kThreads;
    const bool inside = i < tensor.size;
    g[j] = inside ? tensor.gradient[i] : 0.0f;
    m[j] = inside ? tensor.mean[i] : 0.0f;
    v[j] = inside ? tensor.mean_square[i] : 0.0f;
    x[j] = inside ? tensor.parameter[i] : 0.0f;
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kOfThread; ++j) {
    const std::int64_t i = first + j * kThreads;
    if (i >= tensor.size) break;
    m[j] += static_cast<float>(1 - kBeta1) * (g[j] - m[j]);
    v[j] = static_cast<float>(kBeta2) * v[j] + static_cast<float>(1 - kBeta2) * g[j] * g[j];
    tensor.mean[i] = m[j];
    tensor.mean_square[i] = v[j];
    tensor.parameter[i] =
        (1 - learning_rate * weight_decay) * x[j] - rate * m[j] / (sqrtf(v[j]) * inverse_correction + kEpsilon);
  }
}

}  // namespace

void adam_step(const std::vector<AdamTensor>& tensors, const float* learning_rate, float weight_decay, float* step,
               const float* skip, cudaStream_t stream) {
  count_kernel<<<1, 1, 0, stream>>>(step, skip);
  check_cuda(cudaGetLastError(), "adam_step");
  for (std::size_t begin = 0; begin < tensors.size(); begin += kTensors) {
    Launch launch{};
    launch.count = static_cast<int>(std::min<std::size_t>(kTensors, tensors.size() - begin));
    std::int64_t blocks = 0;
    for (int i = 0; i < launch.count; ++i) {
      launch.tensor[i] = tensors[begin + static_cast<std::size_t>(i)];
      launch.first_block[i] = static_cast<int>(blocks);
      const std::int64_t size = launch.tensor[i].size;
      blocks += (size + kElements - 1) / kElements;
      if (size < 1 || blocks > INT32_MAX)
        throw std::runtime_error("adam_step: a tensor of " + std::to_string(size) + " elements");
    }
    adam_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(launch, learning_rate, weight_decay, step,
                                                                        skip);
    check_cuda(cudaGetLastError(), "adam_step");
  }
}

}  // namespace engram
