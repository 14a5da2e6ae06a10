// engram bench env: environment steps per second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "envs/registry.h"

namespace engram {

int bench_env(const std::vector<std::string>& words);

// Actions for `steps` steps, uniformly random, drawn before the clock starts: [steps, num_envs].
std::vector<std::int32_t> draw_actions(int steps, int num_envs, int num_actions);

// ---- On the current GPU, in programs that are built with CUDA. Defined in bench_env_cuda.cpp. ----

// The GPU must give the CPU's bytes, over more than an episode. Throws std::runtime_error where it does not.
void check_cuda_env(const TaskConfig& task);

struct CudaEnvFigures {
  double steps_per_second;  // the median of the replays of a graph of 64 steps, each with a reset of what has ended
  double step_bytes;        // that a step of one environment reads and writes
};
CudaEnvFigures time_cuda_env(const TaskConfig& task, int num_envs, double seconds);

// Of a device-to-device copy too large for any cache: bytes read and bytes written.
double device_copy_bytes_per_second();

}  // namespace engram
