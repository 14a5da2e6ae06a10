// The ragged task's environments on the current GPU.
#pragma once

#include <cstdint>
#include <memory>

#include "envs/vec/cuda_vec_env.h"

namespace engram::testing {

std::unique_ptr<CudaVecEnv> make_ragged_cuda_env(std::uint64_t seed, Purpose purpose, int num_envs);

}  // namespace engram::testing
