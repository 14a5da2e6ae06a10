// Kernels of a chain that are launched while the one before them still runs ("programmatic dependent launch", compute
// capability 9.0), so that the launch itself costs no time. Every such kernel calls wait_for_previous_kernel(), in
// every thread and before it touches global memory; everything before it on the stream has then ended.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

#include "kernels/common/cuda_support.h"

namespace engram {

// The code that runs on the current device may have been compiled for an older one.
inline bool can_launch_early(const void* kernel) {
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), "attributes of a kernel");
  return cuda_device_attribute(cudaDevAttrComputeCapabilityMajor) >= 9 && attributes.ptxVersion >= 90;
}
inline cudaLaunchAttribute early_launch() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}
template <auto kKernel, typename... Arguments>
void launch_early(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, const char* what,
                  Arguments... arguments) {
  static_assert(std::is_same_v<decltype(kKernel), void (*)(Arguments...)>);
  static const bool early = can_launch_early(reinterpret_cast<const void*>(kKernel));
  cudaLaunchAttribute attribute = early_launch();
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  void* pointers[] = {&arguments...};
  check_cuda(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kKernel), pointers), what);
}
#if defined(__CUDACC__)
__device__ inline void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif

}  // namespace engram
