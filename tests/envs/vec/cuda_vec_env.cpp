#include "envs/vec/cuda_vec_env.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/envs/vec/cuda_play.h"
#include "tests/gpu.h"

using namespace engram;
using namespace engram::testing;

TEST_CASE("a whole episode of up to 100,000 environments gives the CPU's bytes at every step") {
  if (skip_without_gpu()) return;
  // Every task with 100,000. Of its other settings as many as show these bytes of observations in a whole episode, all
  // of which are copied: long episodes of large images would take minutes each.
  constexpr std::int64_t kEnvs = 100'000, kBytes = 500'000'000;
  const std::size_t every_task = default_tasks().size();
  const std::vector<TaskConfig> tasks = many_tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskConfig& task = tasks[i];
    CAPTURE(text_of(task));
    const TaskInfo info = task.info();
    const std::int64_t shown = kBytes / (info.observation.bytes() * info.max_episode_steps);
    const auto size = static_cast<int>(i < every_task ? kEnvs : std::min(kEnvs, shown));
    const auto cpu = make_cpu(task, size);
    const auto cuda = make_cuda(task, size);
    std::vector<int> endings;
    REQUIRE(play_both(*cpu, *cuda, cpu->info().max_episode_steps, &endings) == "");
    CHECK(std::ranges::all_of(endings, [](int count) { return count > 0; }));
    cuda->check(nullptr);
  }
}

TEST_CASE("the comparison finds an apple that comes back a step late, another seed and another episode") {
  if (skip_without_gpu()) return;
  const TaskConfig late = task_with("visual_match", {{"respawn_every", "21"}});
  const auto cuda = make_cuda(late, 1000);
  CHECK(play_both(*make_cpu(TaskConfig("visual_match"), 1000), *cuda, 90) != "");
  for (const TaskConfig& task : default_tasks()) {
    CHECK(play_both(*make_cpu(task, 1000, 8), *make_cuda(task, 1000), 90) != "");
    const auto second = make_cuda(task, 1000);
    second->reset_all(1, nullptr);
    CHECK(play_both(*make_cpu(task, 1000), *second, 90) != "");
  }
}

TEST_CASE("several episodes, for every number of environments") {
  if (skip_without_gpu()) return;
  for (const TaskConfig& task : many_tasks())
    for (const int num_envs : {1, 33, 1000}) {
      CAPTURE(text_of(task));
      CAPTURE(num_envs);
      const auto cpu = make_cpu(task, num_envs);
      const auto cuda = make_cuda(task, num_envs);
      CHECK(play_both(*cpu, *cuda, 5 * cpu->info().max_episode_steps / 2) == "");
      cpu->reset_all(9);
      cuda->reset_all(9, nullptr);
      CHECK(play_both(*cpu, *cuda, 5) == "");
    }
}

TEST_CASE("environments from a later one on draw the streams of those") {
  if (skip_without_gpu()) return;
  constexpr std::uint32_t kFirst = 21;
  for (const TaskConfig& task : default_tasks()) {
    CAPTURE(text_of(task));
    const auto cpu = make_cpu(task, 64, 7, kFirst);
    CHECK(play_both(*cpu, *make_cuda(task, 64, 7, kFirst), 5 * cpu->info().max_episode_steps / 2) == "");
    CHECK(play_both(*make_cpu(task, 64), *make_cuda(task, 64, 7, kFirst), 90) != "");
  }
}

TEST_CASE("environments move to other streams, and chosen ones begin their next episodes, as on the CPU") {
  if (skip_without_gpu()) return;
  constexpr int kEnvs = 300;
  std::vector<std::uint8_t> chosen(kEnvs);
  for (int i = 0; i < kEnvs; i += 7) chosen[i] = 1;
  const DeviceBuffer<std::uint8_t> on_device(chosen);
  for (const TaskConfig& task : many_tasks()) {
    CAPTURE(text_of(task));
    const auto cpu = make_cpu(task, kEnvs);
    const auto cuda = make_cuda(task, kEnvs);
    CHECK(play_both(*cpu, *cuda, 5) == "");
    cpu->reset_chosen(chosen);
    cuda->reset_chosen(on_device.data(), nullptr);
    CHECK(play_both(*cpu, *cuda, 20) == "");
    cpu->move_streams(1000);
    cuda->move_streams(1000, nullptr);
    CHECK(play_both(*cpu, *cuda, 20) == "");
    CHECK(play_both(*make_cpu(task, kEnvs, 7, 1000), *make_cuda(task, kEnvs), 20) != "");
  }
}

TEST_CASE("a replayed graph plays as launches do") {
  if (skip_without_gpu()) return;
  constexpr int kEnvs = 500, kReplays = 60;
  for (const TaskConfig& task : many_tasks()) {
    CAPTURE(text_of(task));
    const auto cpu = make_cpu(task, kEnvs);
    const auto cuda = make_cuda(task, kEnvs);
    const ActionSpec& spec = cpu->info().action;
    RandomActions first(kEnvs, spec, 0), second(kEnvs, spec, 1);
    first.draw();
    second.draw();

    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (const RandomActions* actions : {&first, &second}) {
      cuda->reset_finished(stream);
      cuda->step(actions->device(), stream);
    }
    check_cuda(cudaStreamEndCapture(stream, &graph), "capture");
    check_cuda(cudaGraphInstantiate(&replay, graph, 0), "graph");
    Views views(*cuda);
    std::string difference;
    for (int i = 0; i < kReplays && difference.empty(); ++i) {
      check_cuda(cudaGraphLaunch(replay, stream), "graph");
      for (const RandomActions* actions : {&first, &second}) {
        cpu->reset_finished();
        cpu->step(actions->host());
      }
      views.fetch(*cuda);
      difference = views.difference(*cpu);
    }
    CHECK(difference == "");
    check_cuda(cudaGraphExecDestroy(replay), "graph");
    check_cuda(cudaGraphDestroy(graph), "graph");
    check_cuda(cudaStreamDestroy(stream), "stream");
  }
}
