#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/common/block_threads.h"
#include "kernels/common/launch.cuh"
#include "kernels/fast_weights/delayed_memory/delayed_memory.h"
#include "kernels/fast_weights/delayed_memory/walk.h"

namespace engram {
namespace {

using namespace delayed_memory;

template <Delay kDelay, typename T, int kThreads>
__global__ void __launch_bounds__(kThreads) step_kernel(const __grid_constant__ Problem<T> problem) {
  __shared__ Shared<kDelay, kThreads> shared;
  Walk<kDelay, T, kThreads> walk(problem, blockIdx.x, threadIdx.x);
  OneThread threads(walk, shared);
  walk_block<kDelay>(threads);
}

void check(const DelayedMemoryStep& step) {
  const int widest = step.width <= 64 ? 64 : 128;
  if (step.rows < 1 || step.heads < 1 || step.width < 1 || step.width > 128 || step.output_width < step.width ||
      step.output_width > widest || std::int64_t{step.rows} * step.heads > std::numeric_limits<int>::max())
    throw std::runtime_error("delayed memory: " + std::to_string(step.rows) + " rows of " + std::to_string(step.heads) +
                             " heads of " + std::to_string(step.width) + " elements, read as " +
                             std::to_string(step.output_width));
  if (step.slots < 1) throw std::runtime_error("delayed memory: a ring of no slots");
  if (step.rotary_width < 0 || step.rotary_width > step.width || step.rotary_width % 2 != 0)
    throw std::runtime_error("delayed memory: rotary width " + std::to_string(step.rotary_width) +
                             " is not an even number from 0 to " + std::to_string(step.width));
}

}  // namespace

void delayed_memory_step(const DelayedMemoryStep& step, cudaStream_t stream) {
  check(step);
  const unsigned blocks = static_cast<unsigned>(step.rows) * static_cast<unsigned>(step.heads);
  dispatch_width(step.dtype, step.width, [&](auto element, auto padded) {
    using T = decltype(element);
    constexpr int kThreads = decltype(padded)::value;
    const Problem<T> problem = problem_of<T>(step);
    if (step.delay == Delay::kStream)
      step_kernel<Delay::kStream, T, kThreads><<<blocks, kThreads, 0, stream>>>(problem);
    else
      step_kernel<Delay::kChunk, T, kThreads><<<blocks, kThreads, 0, stream>>>(problem);
  });
  check_cuda(cudaGetLastError(), "delayed memory: step");
}

}  // namespace engram
