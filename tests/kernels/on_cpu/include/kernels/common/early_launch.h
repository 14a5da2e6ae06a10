// The functions of kernels/common/early_launch.h for kernels on a CPU: one follows the other.
#pragma once

#include <cstddef>
#include <type_traits>

#include "tests/kernels/on_cpu/cuda_on_cpu.h"

namespace engram {

template <auto kKernel, typename... Arguments>
void launch_early(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, const char*,
                  Arguments... arguments) {
  static_assert(std::is_same_v<decltype(kKernel), void (*)(Arguments...)>);
  on_cpu::Start(grid, block, shared_bytes, stream)([&] { kKernel(arguments...); });
}
inline void wait_for_previous_kernel() {}

}  // namespace engram
