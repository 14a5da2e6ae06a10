// For tests that need a GPU.
#pragma once

#include <cstdio>

#include "kernels/cuda_support.h"

namespace engram::testing {

// True, with a line that ctest recognises, where there is no GPU.
inline bool skip_without_gpu() {
  if (has_cuda_device()) return false;
  std::printf("skipped: no CUDA device\n");
  return true;
}

}  // namespace engram::testing
