// Host code that chooses a kernel's instance and launches it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "kernels/common/cuda_support.h"

namespace engram {

// Calls function(T{}, width constant) for the element type and the width, at most 128, padded to 64 or 128.
template <typename Function>
void dispatch_width(Dtype dtype, int width, Function&& function) {
  dispatch_dtype(dtype, [&](auto element) {
    if (width <= 64)
      function(element, std::integral_constant<int, 64>{});
    else
      function(element, std::integral_constant<int, 128>{});
  });
}

// Launches with `bytes` of dynamic shared memory and checks the launch; no blocks are no launch.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 blocks, int threads, std::size_t bytes, cudaStream_t stream,
            const char* name, const Arguments&... arguments) {
  if (blocks.x == 0) return;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), name);
  kernel<<<blocks, static_cast<unsigned>(threads), bytes, stream>>>(arguments...);
  check_cuda(cudaGetLastError(), name);
}

}  // namespace engram
