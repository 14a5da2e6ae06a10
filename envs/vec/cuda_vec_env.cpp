#include "envs/vec/cuda_vec_env.h"

#include <map>
#include <stdexcept>

#include "base/error.h"
#include "envs/all_tasks.h"
#include "envs/external_task.h"
#include "envs/vec/vec_env.h"

namespace engram {
namespace {

std::map<std::string, CudaEnvMaker>& makers() {
  static std::map<std::string, CudaEnvMaker> all = [] {
    std::map<std::string, CudaEnvMaker> listed;
    AllTasks::for_each([&]<class Task>() { listed[Task::kName] = make_cuda_vec_env_of<Task>; });
    return listed;
  }();
  return all;
}

}  // namespace

void add_cuda_task(const std::string& task, CudaEnvMaker maker) { makers()[task] = maker; }

std::unique_ptr<CudaVecEnv> make_cuda_vec_env(const TaskConfig& task, std::uint64_t seed, Purpose purpose, int num_envs,
                                              std::uint32_t first_environment) {
  if (num_envs < 1) throw std::invalid_argument(std::to_string(num_envs) + " environments; at least 1 is needed");
  task.check();
  if (task.name() == kExternalTask) task.any().make_cpu_vec_env(seed, purpose, num_envs, 1, 0);  // says why not
  const auto maker = makers().find(task.name());
  if (maker == makers().end())
    throw UserError("task '" + task.name() + "' was added without its environments on a GPU (add_cuda_task)");
  return maker->second(task.any(), seed, purpose, num_envs, first_environment);
}

}  // namespace engram
