#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/bench_env.h"
#include "envs/cuda_vec_env.h"
#include "envs/vec_env.h"
#include "kernels/cuda_support.h"

namespace engram {
namespace {

// A stream, and the times of what is run on it.
class Clock {
 public:
  Clock() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    check_cuda(cudaEventCreate(&begin_), "an event");
    check_cuda(cudaEventCreate(&end_), "an event");
  }
  ~Clock() {
    cudaEventDestroy(end_);
    cudaEventDestroy(begin_);
    cudaStreamDestroy(stream_);
  }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  cudaStream_t stream() const { return stream_; }

  // Median time of a call, in seconds, over calls of `seconds` together; three calls before them do not count.
  double median(double seconds, const std::function<void()>& work) {
    for (int i = 0; i < 3; ++i) time(work);
    std::vector<double> times;
    for (double total = 0; total < seconds || times.size() < 5; total += times.back()) times.push_back(time(work));
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
  }

 private:
  double time(const std::function<void()>& work) {
    float milliseconds = 0;
    check_cuda(cudaEventRecord(begin_, stream_), "an event");
    work();
    check_cuda(cudaEventRecord(end_, stream_), "an event");
    check_cuda(cudaEventSynchronize(end_), "a timed run");
    check_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "an event");
    return 1e-3 * milliseconds;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// Work that was captured once and is replayed as a whole.
class Graph {
 public:
  Graph(cudaStream_t stream, const std::function<void()>& work) : stream_(stream) {
    cudaGraph_t graph;
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "a graph's capture");
    work();
    check_cuda(cudaStreamEndCapture(stream, &graph), "a graph's capture");
    const cudaError_t status = cudaGraphInstantiate(&replay_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "a graph");
  }
  ~Graph() { cudaGraphExecDestroy(replay_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void replay() { check_cuda(cudaGraphLaunch(replay_, stream_), "a graph's replay"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t replay_ = nullptr;
};

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
  const std::vector<std::int32_t> actions = draw_actions(steps, kEnvs, cpu->info().num_actions());
  const DeviceBuffer<std::int32_t> device_actions(actions);
  for (int t = 0; t < steps; ++t) {
    cpu->reset_finished();
    cpu->step({actions.data() + static_cast<std::size_t>(t) * kEnvs, kEnvs});
    cuda->reset_finished(nullptr);
    cuda->step(device_actions.data() + static_cast<std::size_t>(t) * kEnvs, nullptr);
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
  const DeviceBuffer<std::int32_t> actions(draw_actions(kSteps, num_envs, env->info().num_actions()));
  Clock clock;
  Graph graph(clock.stream(), [&] {
    for (int t = 0; t < kSteps; ++t) {
      env->reset_finished(clock.stream());
      env->step(actions.data() + static_cast<std::size_t>(t) * num_envs, clock.stream());
    }
  });
  const double replay = clock.median(seconds, [&] { graph.replay(); });
  env->check(clock.stream());
  return {static_cast<double>(num_envs) * kSteps / replay, static_cast<double>(env->step_bytes())};
}

double device_copy_bytes_per_second() {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const DeviceBuffer<std::uint8_t> from(kBytes);
  DeviceBuffer<std::uint8_t> to(kBytes);
  Clock clock;
  const double seconds = clock.median(0.05, [&] {
    check_cuda(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, clock.stream()), "a copy");
  });
  return 2 * static_cast<double>(kBytes) / seconds;
}

}  // namespace engram
