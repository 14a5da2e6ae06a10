#include <algorithm>

#include "kernels/common/cuda_support.h"
#include "kernels/common/launch_parts.cuh"
#include "kernels/learner/tensor_list/tensor_list.h"

namespace engram {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 16 * kThreads;  // of one tensor, a block
constexpr int kTensors = 64;              // a launch: as many as its parameters hold

// Which tensor a block works on, and from which element.
struct Blocks {
  int first_block[kTensors + 1];
  int count;

  __device__ int tensor() const {
    return part_of_block<kTensors>(count, [this](int i) { return first_block[i]; });
  }
  __device__ std::int64_t element(int tensor) const {
    return std::int64_t{static_cast<int>(blockIdx.x) - first_block[tensor]} * kElements;
  }
};

std::int64_t blocks_of(std::int64_t size) { return (size + kElements - 1) / kElements; }

struct NormLaunch {
  Blocks blocks;
  TensorView tensor[kTensors];
};

// The sum over a warp, in all its lanes.
__device__ float warp_sum(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
  return x;
}

// squares[block] = the sum over the block's elements.
__global__ void __launch_bounds__(kThreads) square_kernel(const __grid_constant__ NormLaunch launch, float* squares) {
  __shared__ float part[kThreads / 32];
  const int own = launch.blocks.tensor();
  const TensorView& tensor = launch.tensor[own];
  const std::int64_t first = launch.blocks.element(own) + threadIdx.x;
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kElements / kThreads; ++j) {
    const std::int64_t i = first + j * kThreads;
    const float x = i < tensor.size ? tensor.data[i] : 0.0f;
    sum += x * x;
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = 0;
  for (const float own_part : part) sum += own_part;
  squares[blockIdx.x] = sum;
}

// One warp for each tensor.
__global__ void __launch_bounds__(kThreads)
    norm_kernel(const __grid_constant__ Blocks blocks, const float* squares, float* norms) {
  const int tensor = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) / 32;
  if (tensor >= blocks.count) return;
  float sum = 0;
  for (int b = blocks.first_block[tensor] + static_cast<int>(threadIdx.x % 32); b < blocks.first_block[tensor + 1];
       b += 32)
    sum += squares[b];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) norms[tensor] = sqrtf(sum);
}

// One block.
__global__ void __launch_bounds__(kThreads) watch_kernel(UpdateWatch update) {
  __shared__ int first_bad;
  __shared__ float part[kThreads / 32];
  const int values = update.count + 1;
  if (threadIdx.x == 0) first_bad = values;
  __syncthreads();
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < values; i += kThreads) {
    const float x = i == 0 ? *update.loss : update.norms[i - 1];
    if (!isfinite(x)) atomicMin(&first_bad, i);
    if (i > 0) sum += x * x;
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = 0;
  for (const float own : part) sum += own;
  *update.norm = sqrtf(sum);
  const bool bad = first_bad < values;
  *update.bad = bad ? 1.0f : 0.0f;
  const std::int64_t number = ++update.watch[0];
  if (bad && update.watch[1]++ == 0) {
    update.watch[2] = number;
    update.watch[3] = first_bad;
  }
}

struct MoveLaunch {
  Blocks blocks;
  TensorPair pair[kTensors];
};

__global__ void __launch_bounds__(kThreads) move_kernel(const __grid_constant__ MoveLaunch launch, float rate) {
  const int own = launch.blocks.tensor();
  const TensorPair& pair = launch.pair[own];
  const std::int64_t first = launch.blocks.element(own) + threadIdx.x;
  constexpr int kOfThread = kElements / kThreads;
  float x[kOfThread], target[kOfThread];  // all are asked for before the first is written
#pragma unroll
  for (int j = 0; j < kOfThread; ++j) {
    const std::int64_t i = first + j * kThreads;
    x[j] = i < pair.size ? pair.x[i] : 0.0f;
    target[j] = i < pair.size ? pair.target[i] : 0.0f;
  }
#pragma unroll
  for (int j = 0; j < kOfThread; ++j) {
    const std::int64_t i = first + j * kThreads;
    const float way = target[j] - x[j];
    if (i < pair.size) pair.x[i] = rate < 0.5f ? x[j] + rate * way : target[j] - (1.0f - rate) * way;
  }
}

// Calls launch(blocks, first tensor, number of blocks) for every kTensors tensors.
template <typename Tensor, typename Launch>
void for_each_launch(const std::vector<Tensor>& tensors, Launch launch) {
  for (std::size_t begin = 0; begin < tensors.size(); begin += kTensors) {
    Blocks blocks{};
    blocks.count = static_cast<int>(std::min<std::size_t>(kTensors, tensors.size() - begin));
    for (int i = 0; i < blocks.count; ++i)
      blocks.first_block[i + 1] =
          blocks.first_block[i] + static_cast<int>(blocks_of(tensors[begin + static_cast<std::size_t>(i)].size));
    launch(blocks, begin, static_cast<unsigned>(blocks.first_block[blocks.count]));
  }
}

}  // namespace

std::size_t tensor_norms_scratch_bytes(const std::vector<TensorView>& tensors) {
  std::int64_t blocks = 0;
  for (const TensorView& tensor : tensors) blocks += blocks_of(tensor.size);
  return static_cast<std::size_t>(blocks) * sizeof(float);
}

void tensor_norms(const std::vector<TensorView>& tensors, float* norms, void* scratch, cudaStream_t stream) {
  auto* squares = static_cast<float*>(scratch);
  for_each_launch(tensors, [&](const Blocks& blocks, std::size_t begin, unsigned count) {
    NormLaunch launch{blocks, {}};
    std::copy_n(tensors.begin() + static_cast<std::ptrdiff_t>(begin), blocks.count, launch.tensor);
    if (count > 0) square_kernel<<<count, kThreads, 0, stream>>>(launch, squares);
    norm_kernel<<<(blocks.count * 32 + kThreads - 1) / kThreads, kThreads, 0, stream>>>(blocks, squares, norms + begin);
    squares += count;
  });
  check_cuda(cudaGetLastError(), "tensor_norms");
}

void watch_update(const UpdateWatch& update, cudaStream_t stream) {
  watch_kernel<<<1, kThreads, 0, stream>>>(update);
  check_cuda(cudaGetLastError(), "watch_update");
}

void move_towards(const std::vector<TensorPair>& pairs, float rate, cudaStream_t stream) {
  for_each_launch(pairs, [&](const Blocks& blocks, std::size_t begin, unsigned count) {
    MoveLaunch launch{blocks, {}};
    std::copy_n(pairs.begin() + static_cast<std::ptrdiff_t>(begin), blocks.count, launch.pair);
    if (count > 0) move_kernel<<<count, kThreads, 0, stream>>>(launch, rate);
  });
  check_cuda(cudaGetLastError(), "move_towards");
}

}  // namespace engram
