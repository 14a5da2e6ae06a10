#include "envs/cuda_vec_env.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/processors.h"
#include "envs/snapshot.h"
#include "envs/vec_env.h"
#include "kernels/cuda_support.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::skip_without_gpu;

namespace {

TaskConfig task_with(const std::string& name, const std::vector<std::pair<std::string, std::string>>& values) {
  TaskConfig task(name);
  OptionList options = task.options();
  for (const auto& [key, value] : values) options.set("task." + key, value);
  return task;
}

std::vector<TaskConfig> default_tasks() {
  std::vector<TaskConfig> tasks;
  for (const std::string& name : task_names()) tasks.emplace_back(name);
  return tasks;
}

std::vector<TaskConfig> many_tasks() {
  std::vector<TaskConfig> tasks = default_tasks();
  tasks.push_back(TaskConfig::from_preset("visual_match_hqlt"));
  tasks.push_back(task_with("visual_match", {{"active", "true"}, {"colours", "reference"}, {"num_apples", "22"}}));
  tasks.push_back(
      task_with("visual_match", {{"colours", "fixed"}, {"respawn_every", "1"}, {"distractor_steps", "300"}}));
  tasks.push_back(task_with("key_to_door", {{"variant", "cca"}, {"reward_steps", "15"}, {"respawn_every", "0"}}));
  tasks.push_back(task_with("key_to_door", {{"distractor_steps", "0"}}));
  tasks.push_back(task_with("tmaze", {{"active", "true"}, {"corridor_length", "20"}}));
  for (const std::string& name : task_names()) tasks.push_back(task_with(name, {{"full_state", "true"}}));
  return tasks;
}

std::unique_ptr<VecEnv> make_cpu(const TaskConfig& task, int num_envs, std::uint64_t seed = 7) {
  const int threads = available_processors();
  return make_cpu_vec_env(task, seed, Purpose::kTraining, num_envs, worthwhile_threads(num_envs, threads));
}
std::unique_ptr<CudaVecEnv> make_cuda(const TaskConfig& task, int num_envs, std::uint64_t seed = 7) {
  return make_cuda_vec_env(task, seed, Purpose::kTraining, num_envs);
}

// What can be seen of the environments, copied to the host.
class Views {
 public:
  explicit Views(const CudaVecEnv& env)
      : observation_bytes_(static_cast<std::size_t>(env.info().observation.bytes())),
        observations_(env.size() * observation_bytes_),
        rewards_(env.size()),
        ends_(env.size()),
        successes_(env.size()) {}

  // Waits for the device.
  void fetch(const CudaVecEnv& env) {
    check_cuda(cudaDeviceSynchronize(), "the device");
    copy(observations_, env.observation_N());
    copy(rewards_, env.reward_N());
    copy(ends_, env.end_N());
    copy(successes_, env.success_N());
  }

  // What differs first from the CPU's, or nothing.
  std::string difference(const VecEnv& cpu) const {
    const auto expected = cpu.observation_N();
    if (std::memcmp(observations_.data(), expected.data(), observations_.size()) != 0) {
      const auto at = std::ranges::mismatch(observations_, expected).in1 - observations_.begin();
      return "observation of environment " + std::to_string(at / observation_bytes_) + ", byte " +
             std::to_string(at % observation_bytes_) + ": " + std::to_string(static_cast<int>(observations_[at])) +
             " instead of " + std::to_string(static_cast<int>(expected[at]));
    }
    for (int i = 0; i < cpu.size(); ++i) {
      if (std::memcmp(&rewards_[i], &cpu.reward_N()[i], sizeof(float)) != 0)
        return "reward of environment " + std::to_string(i) + ": " + std::to_string(rewards_[i]) + " instead of " +
               std::to_string(cpu.reward_N()[i]);
      if (ends_[i] != cpu.end_N()[i]) return "end of environment " + std::to_string(i);
      if (successes_[i] != cpu.success_N()[i]) return "success of environment " + std::to_string(i);
    }
    return "";
  }

  const std::vector<End>& ends() const { return ends_; }
  std::size_t observation_bytes() const { return observation_bytes_; }
  const std::vector<std::byte>& observations() const { return observations_; }
  const std::vector<float>& rewards() const { return rewards_; }

 private:
  template <class T>
  static void copy(std::vector<T>& to, const void* from) {
    check_cuda(cudaMemcpy(to.data(), from, to.size() * sizeof(T), cudaMemcpyDeviceToHost), "copy from the device");
  }

  std::size_t observation_bytes_;
  std::vector<std::byte> observations_;
  std::vector<float> rewards_;
  std::vector<End> ends_;
  std::vector<std::uint8_t> successes_;
};

class RandomActions {
 public:
  RandomActions(int num_envs, int num_actions, std::uint32_t stream = 0)
      : rng_(5, Purpose::kAction, stream, 0),
        num_actions_(static_cast<std::uint32_t>(num_actions)),
        host_(num_envs),
        device_(host_.size()) {}

  void draw() {
    for (std::int32_t& action : host_) action = static_cast<std::int32_t>(rng_.below(num_actions_));
    upload();
  }
  void set(std::size_t row, std::int32_t action) {
    host_[row] = action;
    upload();
  }
  const std::vector<std::int32_t>& host() const { return host_; }
  const std::int32_t* device() const { return device_.data(); }

 private:
  void upload() {
    check_cuda(cudaMemcpy(device_.data(), host_.data(), host_.size() * 4, cudaMemcpyHostToDevice), "upload of actions");
  }

  Rng rng_;
  std::uint32_t num_actions_;
  std::vector<std::int32_t> host_;
  DeviceBuffer<std::int32_t> device_;
};

// Plays `steps` steps on both, resetting before each where `resets`; returns the first difference.
std::string play_both(VecEnv& cpu, CudaVecEnv& cuda, int steps, bool resets, std::uint32_t stream = 0) {
  Views views(cuda);
  RandomActions actions(cuda.size(), cuda.info().num_actions(), stream);
  for (int t = 0; t <= steps; ++t) {
    if (t > 0) {
      actions.draw();
      if (resets) {
        cpu.reset_finished();
        cuda.reset_finished(nullptr);
      }
      cpu.step(actions.host());
      cuda.step(actions.device(), nullptr);
    }
    views.fetch(cuda);
    if (const std::string difference = views.difference(cpu); !difference.empty())
      return "step " + std::to_string(t) + ": " + difference;
  }
  return "";
}

// A snapshot of two environments of which every odd row comes from `odd`, every even one from `even`.
template <class Task>
std::vector<std::byte> interleave(const TaskConfig& task, const VecEnv& even, const VecEnv& odd) {
  const std::string identity = snapshot_identity(task, even.size());
  EnvRows<typename Task::State> rows(0, Purpose{}, even.size()), others = rows;
  rows.from_snapshot(identity, even.snapshot());
  others.from_snapshot(identity, odd.snapshot());
  for (int i = 1; i < even.size(); i += 2) {
    rows.states[i] = others.states[i];
    rows.rngs[i] = others.rngs[i];
    rows.episodes[i] = others.episodes[i];
    rows.rewards[i] = others.rewards[i];
    rows.ends[i] = others.ends[i];
  }
  return rows.to_snapshot(identity);
}

// Environments of one task in two stages of their episodes, the same on both.
template <class Task>
std::pair<std::unique_ptr<VecEnv>, std::unique_ptr<CudaVecEnv>> make_staggered(int num_envs) {
  const TaskConfig task(Task::kName);
  auto cpu = make_cpu(task, num_envs);
  const auto ahead = make_cpu(task, num_envs);
  RandomActions actions(num_envs, cpu->info().num_actions(), 3);
  for (int t = 0; t < 20; ++t) {
    actions.draw();
    ahead->step(actions.host());
  }
  const auto snapshot = interleave<Task>(task, *cpu, *ahead);
  cpu->restore(snapshot);
  auto cuda = make_cuda(task, num_envs);
  cuda->restore(snapshot);
  return {std::move(cpu), std::move(cuda)};
}

}  // namespace

TEST_CASE("a whole episode of 100,000 environments gives the CPU's bytes at every step") {
  if (skip_without_gpu()) return;
  constexpr int kEnvs = 100'000;
  for (const TaskConfig& task : many_tasks()) {
    CAPTURE(snapshot_identity(task, kEnvs));
    const auto cpu = make_cpu(task, kEnvs);
    const auto cuda = make_cuda(task, kEnvs);
    REQUIRE(play_both(*cpu, *cuda, cpu->info().max_episode_steps, false) == "");
    CHECK(std::ranges::all_of(cpu->end_N(), [](End end) { return end == End::kTerminated; }));
    cuda->check(nullptr);
  }
}

TEST_CASE("the comparison finds an apple that comes back a step late, another seed and another episode") {
  if (skip_without_gpu()) return;
  const TaskConfig late = task_with("visual_match", {{"respawn_every", "21"}});
  const auto cuda = make_cuda(late, 1000);
  CHECK(play_both(*make_cpu(TaskConfig("visual_match"), 1000), *cuda, 90, false) != "");
  for (const TaskConfig& task : default_tasks()) {
    CHECK(play_both(*make_cpu(task, 1000, 8), *make_cuda(task, 1000), 90, true) != "");
    const auto second = make_cuda(task, 1000);
    second->reset_all(1, nullptr);
    CHECK(play_both(*make_cpu(task, 1000), *second, 90, true) != "");
  }
}

TEST_CASE("several episodes, for every number of environments") {
  if (skip_without_gpu()) return;
  for (const TaskConfig& task : many_tasks())
    for (const int num_envs : {1, 33, 1000}) {
      CAPTURE(snapshot_identity(task, num_envs));
      const auto cpu = make_cpu(task, num_envs);
      const auto cuda = make_cuda(task, num_envs);
      CHECK(play_both(*cpu, *cuda, 5 * cpu->info().max_episode_steps / 2, true) == "");
      cpu->reset_all(9);
      cuda->reset_all(9, nullptr);
      CHECK(play_both(*cpu, *cuda, 5, true) == "");
    }
}

TEST_CASE("environments at different points of their episodes are reset one by one") {
  if (skip_without_gpu()) return;
  AllTasks::for_each([]<class Task>() {
    CAPTURE(Task::kName);
    const auto [cpu, cuda] = make_staggered<Task>(301);
    CHECK(play_both(*cpu, *cuda, 3 * cpu->info().max_episode_steps, true) == "");
  });
}

TEST_CASE("an environment whose episode has ended stays as it is until it is reset") {
  if (skip_without_gpu()) return;
  AllTasks::for_each([]<class Task>() {
    CAPTURE(Task::kName);
    constexpr int kEnvs = 301;
    const auto [cpu, cuda] = make_staggered<Task>(kEnvs);
    REQUIRE(play_both(*cpu, *cuda, cpu->info().max_episode_steps - 20, false) == "");
    Views ended(*cuda), views(*cuda);
    ended.fetch(*cuda);
    RandomActions actions(kEnvs, cuda->info().num_actions(), 2);
    cpu->reset_finished();
    for (int t = 0; t < 3; ++t) {
      actions.draw();
      cpu->step(actions.host());
      cuda->step(actions.device(), nullptr);
      views.fetch(*cuda);
      const std::size_t bytes = views.observation_bytes();
      int kept = 0, played = 0;
      for (int i = 0; i < kEnvs; ++i) {
        const auto* const now = views.observations().data() + i * bytes;
        if (ended.ends()[i] == End::kNone) {
          played += std::memcmp(now, cpu->observation_N().data() + i * bytes, bytes) == 0 &&
                    views.rewards()[i] == cpu->reward_N()[i] && views.ends()[i] == cpu->end_N()[i];
        } else {
          kept += std::memcmp(now, ended.observations().data() + i * bytes, bytes) == 0 &&
                  views.rewards()[i] == ended.rewards()[i] && views.ends()[i] == ended.ends()[i];
        }
      }
      CHECK(kept == kEnvs / 2);
      CHECK(played == kEnvs - kEnvs / 2);
    }
  });
}

TEST_CASE("a replayed graph plays as launches do") {
  if (skip_without_gpu()) return;
  constexpr int kEnvs = 500, kReplays = 60;
  for (const TaskConfig& task : many_tasks()) {
    CAPTURE(snapshot_identity(task, kEnvs));
    const auto cpu = make_cpu(task, kEnvs);
    const auto cuda = make_cuda(task, kEnvs);
    RandomActions first(kEnvs, 4, 0), second(kEnvs, 4, 1);
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

TEST_CASE("a snapshot goes from the GPU to the CPU and back") {
  if (skip_without_gpu()) return;
  constexpr int kEnvs = 77;
  for (const TaskConfig& task : many_tasks()) {
    CAPTURE(snapshot_identity(task, kEnvs));
    const auto cpu = make_cpu(task, kEnvs, 1);
    const auto cuda = make_cuda(task, kEnvs, 1);
    REQUIRE(play_both(*cpu, *cuda, 40, true) == "");
    const auto to_cpu = make_cpu(task, kEnvs, 2);
    to_cpu->restore(cuda->snapshot());
    const auto to_cuda = make_cuda(task, kEnvs, 3);
    to_cuda->restore(cpu->snapshot());
    CHECK(play_both(*to_cpu, *to_cuda, 200, true, 1) == "");
    CHECK(play_both(*cpu, *cuda, 200, true, 1) == "");
    CHECK_THROWS_AS(make_cuda(task, kEnvs + 1)->restore(cpu->snapshot()), std::invalid_argument);
  }
}

TEST_CASE("observations land where the caller wants them") {
  if (skip_without_gpu()) return;
  constexpr int kEnvs = 130;
  for (const TaskConfig& task : default_tasks()) {
    const auto cpu = make_cpu(task, kEnvs);
    const auto cuda = make_cuda(task, kEnvs);
    const auto bytes = static_cast<std::size_t>(kEnvs * cuda->info().observation.bytes());
    constexpr std::uint8_t kPoison = 251;
    DeviceBuffer<std::uint8_t> mine(std::vector<std::uint8_t>(bytes + 16, kPoison));
    cuda->observe_into(mine.data(), nullptr);
    CHECK(cuda->observation_N() == mine.data());
    CHECK(play_both(*cpu, *cuda, 100, true) == "");
    const auto host = mine.to_host();
    CHECK(std::all_of(host.begin() + static_cast<std::ptrdiff_t>(bytes), host.end(),
                      [](std::uint8_t byte) { return byte == kPoison; }));
    CHECK_THROWS_AS(cuda->observe_into(mine.data() + 8, nullptr), std::runtime_error);
  }
}

TEST_CASE("an action out of range changes nothing in its environment and is reported once") {
  if (skip_without_gpu()) return;
  const TaskConfig task("tmaze");
  const auto cuda = make_cuda(task, 200);
  RandomActions actions(200, 1);  // all +x
  Views views(*cuda);
  for (int t = 0; t < 50; ++t) cuda->step(actions.device(), nullptr);
  cuda->check(nullptr);
  actions.set(150, -1);
  actions.set(170, 4);
  cuda->step(actions.device(), nullptr);
  CHECK_THROWS_WITH_AS(cuda->check(nullptr), "action -1 of environment 150 is not one of 0..3", std::invalid_argument);
  cuda->check(nullptr);
  views.fetch(*cuda);
  for (int i = 0; i < 200; ++i) CHECK((views.ends()[i] == End::kNone) == (i == 150 || i == 170));
  CHECK_THROWS_AS(make_cuda(task, 0), std::invalid_argument);
}
