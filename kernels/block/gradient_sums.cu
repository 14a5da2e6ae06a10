#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/block/gradient_sums.h"
#include "kernels/common/launch_parts.cuh"

namespace engram {
namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 8;  // matrices whose elements a thread asks for before it adds the first

// Threads that share an element of a sum, a power of two: each adds kAtOnce matrices or so, and as many more as it
// takes where there are more than 32 threads' share.
__host__ __device__ constexpr int threads_of_element(const GradientSum& sum) {
  int threads = 1;
  while (threads < 32 && kAtOnce * threads < sum.count) threads *= 2;
  return threads;
}

struct Launch {
  GradientSum sum[kGradientSumsOfLaunch];
  int first_block[kGradientSumsOfLaunch];
  int count;
};
static_assert(sizeof(Launch) <= 4096, "more than a launch's parameters hold");

__global__ void __launch_bounds__(kThreads) add_up_kernel(const __grid_constant__ Launch launch) {
  __shared__ float part[kThreads];
  const int block = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int own = part_of_block<kGradientSumsOfLaunch>(launch.count, [&](int i) { return launch.first_block[i]; });
  const GradientSum& sum = launch.sum[own];
  const int sharing = threads_of_element(sum), elements = kThreads / sharing;
  const int share = thread / elements, element = (block - launch.first_block[own]) * elements + thread % elements;
  const bool inside = element < sum.rows.count * sum.columns.count;
  float total = 0;
  if (inside) {
    const float* const at = sum.parts + std::int64_t{sum.rows.position(element / sum.columns.count)} * sum.stride +
                            sum.columns.position(element % sum.columns.count);
    // Loads are on their way together, the last ones too: there are few threads to hide them.
    for (int i = share; i < sum.count; i += kAtOnce * sharing) {
      float own_part[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j)
        own_part[j] = i + j * sharing < sum.count ? at[(i + j * sharing) * sum.distance] : 0.0f;
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) total += own_part[j];
    }
  }
  if (sharing > 1) {
    part[thread] = total;
    __syncthreads();
    if (share != 0) return;
    total = 0;
    for (int i = 0; i < sharing; ++i) total += part[i * elements + thread];
  }
  if (inside) sum.gradient[element] = total;
}

bool fits(const PackGroups& groups) { return groups.count >= 1 && groups.group >= 1 && groups.padded >= groups.group; }

void check_shape(const GradientSum& sum) {
  if (sum.count < 1 || !fits(sum.rows) || !fits(sum.columns) || sum.columns.size() > sum.stride ||
      std::int64_t{sum.rows.count} * sum.columns.count > 1 << 30)
    throw std::runtime_error("add_up: " + std::to_string(sum.count) + " matrices of " + std::to_string(sum.rows.count) +
                             " x " + std::to_string(sum.columns.count) + " elements in rows of " +
                             std::to_string(sum.stride));
}

}  // namespace

void add_up(const std::vector<GradientSum>& sums, cudaStream_t stream) {
  std::for_each(sums.begin(), sums.end(), check_shape);
  for (std::size_t begin = 0; begin < sums.size(); begin += kGradientSumsOfLaunch) {
    Launch launch{};
    launch.count = static_cast<int>(std::min<std::size_t>(kGradientSumsOfLaunch, sums.size() - begin));
    std::int64_t blocks = 0;
    for (int i = 0; i < launch.count; ++i) {
      const GradientSum& sum = launch.sum[i] = sums[begin + static_cast<std::size_t>(i)];
      launch.first_block[i] = static_cast<int>(blocks);
      const int elements = kThreads / threads_of_element(sum);
      blocks += (sum.rows.count * sum.columns.count + elements - 1) / elements;
    }
    if (blocks > INT32_MAX) throw std::runtime_error("add_up: " + std::to_string(blocks) + " blocks");
    add_up_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(launch);
    check_cuda(cudaGetLastError(), "add_up");
  }
}

}  // namespace engram
