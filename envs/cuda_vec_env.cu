#include <stdexcept>
#include <string>
#include <variant>

#include "envs/cuda_vec_env.cuh"

namespace engram {

std::unique_ptr<CudaVecEnv> make_cuda_vec_env(const TaskConfig& task, std::uint64_t seed, Purpose purpose,
                                              int num_envs) {
  if (num_envs < 1) throw std::invalid_argument(std::to_string(num_envs) + " environments; at least 1 is needed");
  task.check();
  return std::visit(
      [&](const auto& options) -> std::unique_ptr<CudaVecEnv> {
        using Task = typename std::decay_t<decltype(options)>::Task;
        return std::make_unique<CudaVecEnvOf<Task>>(options, seed, purpose, num_envs);
      },
      task.variant());
}

}  // namespace engram
