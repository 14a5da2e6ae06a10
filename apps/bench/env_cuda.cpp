#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "agents/run/machine/device_timing.h"
#include "apps/bench/bench.h"
#include "envs/vec/cuda_vec_env.h"
#include "envs/vec/vec_env.h"
#include "kernels/common/cuda_support.h"

namespace engram {
namespace {

template <class T>
bool equal_on_device(std::span<const T> host, const void* device) {
  std::vector<T> copy(host.size());
  check_cuda(cudaMemcpy(copy.data(), device, host.size_bytes(), cudaMemcpyDeviceToHost), "copy from the device");
  return std::ranges::equal(copy, host);
}

}  // namespace

void check_cuda_env(const TaskConfig& task) {
  constexpr int kEnvs = 1000;
  const auto cpu = make_cpu_vec_env(task, 1, Purpose::kTest, kEnvs, 1);
  const auto cuda = make_cuda_vec_env(task, 1, Purpose::kTest, kEnvs);
  const int steps = task.info().max_episode_steps + 20;
  const std::vector<std::int32_t> actions = draw_actions(steps, kEnvs, cpu->info().action);
  const std::size_t step_words = static_cast<std::size_t>(kEnvs) * cpu->info().action.words();
  const DeviceBuffer<std::int32_t> device_actions(actions);
  for (int t = 0; t < steps; ++t) {
    cpu->reset_finished();
    cpu->step({actions.data() + static_cast<std::size_t>(t) * step_words, step_words});
    cuda->reset_finished(nullptr);
    cuda->step(device_actions.data() + static_cast<std::size_t>(t) * step_words, nullptr);
    cuda->check(nullptr);
    if (!equal_on_device(cpu->observation_N(), cuda->observation_N()) ||
        !equal_on_device(cpu->reward_N(), cuda->reward_N()) || !equal_on_device(cpu->end_N(), cuda->end_N()) ||
        !equal_on_device(cpu->success_N(), cuda->success_N()))
      throw std::runtime_error("check failed: " + task.name() + " differs between CPU and GPU at step " +
                               std::to_string(t + 1));
  }
}

CudaEnvFigures time_cuda_env(const TaskConfig& task, int num_envs, double seconds) {
  constexpr int kSteps = 64;
  const auto env = make_cuda_vec_env(task, 1, Purpose::kTest, num_envs);
  const DeviceBuffer<std::int32_t> actions(draw_actions(kSteps, num_envs, env->info().action));
  const std::size_t step_words = actions.size() / kSteps;
  const double ms = median_graph_ms(
      1,
      [&](cudaStream_t stream) {
        for (int t = 0; t < kSteps; ++t) {
          env->reset_finished(stream);
          env->step(actions.data() + static_cast<std::size_t>(t) * step_words, stream);
        }
      },
      seconds);
  env->check(nullptr);
  return {1e3 * num_envs * kSteps / ms, static_cast<double>(env->step_bytes())};
}

}  // namespace engram
