#include "envs/vec/cpu_vec_env.h"

#include <cstdint>
#include <memory>

namespace engram {

int worthwhile_threads(int num_envs, int num_threads) {
  constexpr int kEnvsPerThread = 256;
  return std::clamp(num_envs / kEnvsPerThread, 1, num_threads);
}

std::unique_ptr<VecEnv> make_cpu_vec_env(const TaskConfig& task, std::uint64_t seed, Purpose purpose, int num_envs,
                                         int num_threads, std::uint32_t first_environment) {
  if (num_envs < 1) throw std::invalid_argument(std::to_string(num_envs) + " environments; at least 1 is needed");
  if (num_threads < 1) throw std::invalid_argument(std::to_string(num_threads) + " threads; at least 1 is needed");
  task.check();
  return task.any().make_cpu_vec_env(seed, purpose, num_envs, num_threads, first_environment);
}

}  // namespace engram
