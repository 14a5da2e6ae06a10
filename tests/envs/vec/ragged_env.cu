#include "envs/vec/cuda_vec_env.cuh"
#include "tests/envs/vec/ragged_env.h"
#include "tests/envs/vec/ragged_task.h"

namespace engram::testing {

std::unique_ptr<CudaVecEnv> make_ragged_cuda_env(std::uint64_t seed, Purpose purpose, int num_envs) {
  return std::make_unique<CudaVecEnvOf<RaggedTask>>(RaggedTask::Options{}, seed, purpose, num_envs,
                                                    /*first_environment=*/0);
}

}  // namespace engram::testing
