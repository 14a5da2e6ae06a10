#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/common/block_threads.h"
#include "kernels/common/launch.cuh"
#include "kernels/fast_weights/hadamard_memory/hadamard_memory.h"
#include "kernels/fast_weights/hadamard_memory/walk.h"

namespace engram {
namespace {

using namespace hadamard_memory;

constexpr int kMaxTime = 1 << 30;

template <int kColumns>
__global__ void __launch_bounds__(Sweep<kColumns>::kThreads)
    forward_kernel(const __grid_constant__ ForwardProblem problem) {
  __shared__ typename Sweep<kColumns>::Shared shared;
  ForwardWalk<kColumns> walk(problem, blockIdx.x, threadIdx.x);
  OneThread threads(walk, shared);
  walk_forward(threads);
}

template <int kColumns>
__global__ void __launch_bounds__(Sweep<kColumns>::kThreads)
    gradient_sweep_kernel(const __grid_constant__ BackwardProblem problem) {
  __shared__ typename Sweep<kColumns>::Shared shared;
  GradientSweep<kColumns> sweep(problem, blockIdx.x, threadIdx.x);
  OneThread threads(sweep, shared);
  sweep_gradient(threads);
}

template <int kColumns>
__global__ void __launch_bounds__(SegmentWalk<kColumns>::kThreads)
    segment_kernel(const __grid_constant__ BackwardProblem problem) {
  using Walk = SegmentWalk<kColumns>;
  static_assert(sizeof(typename Walk::Shared) <= 99 << 10);  // what devices of 8.6 and 12.0 have
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<typename Walk::Shared*>(memory);
  Walk walk(problem, blockIdx.x, threadIdx.x);
  OneThread threads(walk, shared);
  walk_segment(threads);
}

template <int kColumns>
unsigned blocks_of_sweep(const HadamardMemory& memory) {
  return static_cast<unsigned>(memory.batch) * static_cast<unsigned>(Sweep<kColumns>::groups(memory.width));
}

void check_shape(const HadamardMemory& memory) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const std::int64_t batch = memory.batch;
  if (memory.batch < 1 || memory.time < 1 || memory.time > kMaxTime || memory.width < 1 ||
      memory.width > kMaxHadamardMemoryWidth || batch * memory.width > kMost || batch * memory.time > kMost)
    throw std::runtime_error("Hadamard memory: " + std::to_string(memory.batch) + " rows of " +
                             std::to_string(memory.time) + " steps with " + std::to_string(memory.width) +
                             " rows and columns");
}

// Of a matrix a segment.
std::size_t elements_of(const HadamardMemory& memory) {
  check_shape(memory);
  return static_cast<std::size_t>(memory.batch) * segments_of(memory.time) * memory.width * memory.width;
}

}  // namespace

std::size_t hadamard_memory_checkpoint_bytes(const HadamardMemory& memory) {
  return (sizeof(float) + sizeof(std::uint8_t)) * elements_of(memory);
}

std::size_t hadamard_memory_scratch_bytes(const HadamardMemory& memory) { return sizeof(float) * elements_of(memory); }

void hadamard_memory_forward(const HadamardMemory& memory, float* h_BTH, float* last_BHH, void* checkpoints,
                             cudaStream_t stream) {
  const std::size_t elements = elements_of(memory);
  ForwardProblem problem{memory, h_BTH, last_BHH, {}};
  if (float* const before_BSHH = static_cast<float*>(checkpoints); before_BSHH != nullptr)
    problem.checkpoints = {before_BSHH, reinterpret_cast<std::uint8_t*>(before_BSHH + elements)};
  with_columns(memory.width, [&](auto columns) {
    forward_kernel<columns()><<<blocks_of_sweep<columns()>(memory), Sweep<columns()>::kThreads, 0, stream>>>(problem);
  });
  check_cuda(cudaGetLastError(), "Hadamard memory, forward");
}

void hadamard_memory_backward(const HadamardMemory& memory, const HadamardMemoryOutput& output,
                              const HadamardMemoryGradient& gradient, void* scratch, cudaStream_t stream) {
  const std::size_t elements = elements_of(memory);
  const float* const before_BSHH = static_cast<const float*>(output.checkpoints);
  const BackwardProblem problem{memory,
                                {before_BSHH, reinterpret_cast<const std::uint8_t*>(before_BSHH + elements)},
                                output.h_gradient_BTH,
                                output.last_gradient_BHH,
                                gradient,
                                static_cast<float*>(scratch)};
  const unsigned segments = static_cast<unsigned>(memory.batch) * static_cast<unsigned>(segments_of(memory.time));
  with_columns(memory.width, [&](auto columns) {
    using Walk = SegmentWalk<columns()>;
    gradient_sweep_kernel<columns()>
        <<<blocks_of_sweep<columns()>(memory), Sweep<columns()>::kThreads, 0, stream>>>(problem);
    check_cuda(cudaGetLastError(), "Hadamard memory, the gradient of M");
    launch(segment_kernel<columns()>, dim3(segments), Walk::kThreads, sizeof(typename Walk::Shared), stream,
           "Hadamard memory, the gradients of vectors", problem);
  });
}

}  // namespace engram
