// For tests that need GPUs. They stand in sources of their own, which engram_gpu_tests names to ctest: a source of
// which some cases are skipped and others are not fails.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "tests/skip.h"

namespace engram::testing {

// True where there are fewer than `count` GPUs: the case is then marked as skipped and must return.
inline bool skip_without_gpus(int count) {
  int found = 0;
  if (cudaGetDeviceCount(&found) != cudaSuccess) found = 0;
  if (found >= count) return false;
  skip_case(std::to_string(count) + (count == 1 ? " GPU is" : " GPUs are") + " needed, " + std::to_string(found) +
            " found");
  return true;
}

inline bool skip_without_gpu() { return skip_without_gpus(1); }

}  // namespace engram::testing
