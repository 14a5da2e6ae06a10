#include "envs/cuda_vec_env.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/processors.h"
#include "envs/all_tasks.h"
#include "envs/cpu_vec_env.h"
#include "envs/episode_rows.h"
#include "envs/vec_env.h"
#include "kernels/cuda_support.h"
#include "tests/envs/ragged_env.h"
#include "tests/envs/ragged_task.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::make_ragged_cuda_env;
using engram::testing::RaggedTask;
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
  for (const char* const preset : {"repeat_first_hard", "repeat_previous_hard", "autoencode_hard", "count_recall_hard"})
    tasks.push_back(TaskConfig::from_preset(preset));
  for (const char* const preset : {"concentration_medium", "concentration_hard", "multiarmed_bandit_hard",
                                   "higher_lower_hard", "minesweeper_hard", "battleship_hard"})
    tasks.push_back(TaskConfig::from_preset(preset));
  for (const char* const preset : {"memory_len_1", "memory_size_40", "umbrella_length_1", "minigrid_memory_s13",
                                   "minigrid_memory_s17_random", "red_blue_doors_8", "door_key_8", "door_key_16"})
    tasks.push_back(TaskConfig::from_preset(preset));
  tasks.push_back(task_with("memory_chain", {{"bits", "64"}, {"shown_twice", "false"}}));
  tasks.push_back(task_with("umbrella_chain", {{"distractors", "127"}}));
  tasks.push_back(task_with("minigrid_memory", {{"codes", "original"}}));
  tasks.push_back(task_with("concentration", {{"num_decks", "2"}, {"kind", "ranks"}, {"full_state", "true"}}));
  tasks.push_back(task_with("minesweeper", {{"size", "8"}, {"mines", "61"}, {"full_state", "true"}}));
  tasks.push_back(task_with("battleship", {{"size", "6"}}));
  for (const char* const preset : {"velocity_only_cartpole_hard", "noisy_position_only_cartpole_hard"})
    tasks.push_back(TaskConfig::from_preset(preset));
  tasks.push_back(task_with("cartpole", {{"sees", "velocities"}, {"noise", "0.5"}, {"shows_start", "false"}}));
  for (const char* const preset : {"dark_room_hard_17", "memory_maze_15x15"})
    tasks.push_back(TaskConfig::from_preset(preset));
  for (const char* const name : {"dark_room", "dark_key_to_door"})
    tasks.push_back(task_with(name, {{"size", "3"}, {"random_actions", "true"}, {"full_state", "true"}}));
  // The largest state and the most answers.
  tasks.push_back(task_with("count_recall", {{"num_decks", "4"}, {"full_state", "true"}}));
  for (const std::string& name : task_names()) tasks.push_back(task_with(name, {{"full_state", "true"}}));
  return tasks;
}

std::string text_of(TaskConfig task) {
  std::string text = task.name();
  const OptionList list = task.options();
  for (const Option& option : list.options()) text += " " + option.name + "=" + option.get();
  return text;
}

std::unique_ptr<VecEnv> make_cpu(const TaskConfig& task, int num_envs, std::uint64_t seed = 7,
                                 std::uint32_t first_environment = 0) {
  const int threads = available_processors();
  return make_cpu_vec_env(task, seed, Purpose::kTraining, num_envs, worthwhile_threads(num_envs, threads),
                          first_environment);
}
std::unique_ptr<CudaVecEnv> make_cuda(const TaskConfig& task, int num_envs, std::uint64_t seed = 7,
                                      std::uint32_t first_environment = 0) {
  return make_cuda_vec_env(task, seed, Purpose::kTraining, num_envs, first_environment);
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
    draw([](int) { return false; });
  }
  // None for the rows that `skips` names.
  template <class Skips>
  void draw(Skips skips) {
    for (std::int32_t& action : host_) action = static_cast<std::int32_t>(rng_.below(num_actions_));
    for (int i = 0; i < static_cast<int>(host_.size()); ++i)
      if (skips(i)) host_[static_cast<std::size_t>(i)] = kNoAction;
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

// Plays `steps` steps on both, and resets before each those whose episodes have ended; returns the first difference.
// `endings`, if given, becomes the number of episodes that ended in each environment.
std::string play_both(VecEnv& cpu, CudaVecEnv& cuda, int steps, std::vector<int>* endings = nullptr) {
  Views views(cuda);
  RandomActions actions(cuda.size(), cuda.info().num_actions());
  if (endings != nullptr) endings->assign(static_cast<std::size_t>(cuda.size()), 0);
  for (int t = 0; t <= steps; ++t) {
    if (t > 0) {
      actions.draw();
      cpu.reset_finished();
      cuda.reset_finished(nullptr);
      cpu.step(actions.host());
      cuda.step(actions.device(), nullptr);
    }
    views.fetch(cuda);
    if (const std::string difference = views.difference(cpu); !difference.empty())
      return "step " + std::to_string(t) + ": " + difference;
    if (endings == nullptr) continue;
    for (int i = 0; i < cpu.size(); ++i) (*endings)[static_cast<std::size_t>(i)] += cpu.end_N()[i] != End::kNone;
  }
  return "";
}

// The memory of an EpisodeRecorder, on the device or, as `Buffer` is std::vector, on the host.
template <template <class...> class Buffer>
struct Recording {
  Recording(const TaskInfo& task, int num_envs, int ring, int most_ended)
      : observation(bytes(static_cast<std::size_t>(num_envs * ring) * task.observation.bytes())),
        fresh_N(bytes(num_envs)),
        action(std::vector<std::int32_t>(num_envs * ring)),
        steps_N(std::vector<std::int32_t>(num_envs)),
        ended_N(std::vector<std::int32_t>(num_envs)),
        reward(std::vector<float>(num_envs * ring)),
        running_N(std::vector<RunningEpisode>(num_envs)),
        ended_NE(std::vector<EndedEpisode>(num_envs * most_ended)),
        recorder{ring,
                 most_ended,
                 {task.observation.bytes(), observation.data(), action.data(), reward.data()},
                 running_N.data(),
                 steps_N.data(),
                 ended_N.data(),
                 ended_NE.data()} {}
  static std::vector<std::uint8_t> bytes(std::size_t size) { return std::vector<std::uint8_t>(size); }

  Buffer<std::uint8_t> observation, fresh_N;
  Buffer<std::int32_t> action, steps_N, ended_N;
  Buffer<float> reward;
  Buffer<RunningEpisode> running_N;
  Buffer<EndedEpisode> ended_NE;
  EpisodeRecorder recorder;
};
using DeviceRecording = Recording<DeviceBuffer>;
using HostRecording = Recording<std::vector>;

// What differs first from what the host recorded, or nothing. Waits for the device.
std::string difference(const DeviceRecording& device, const HostRecording& host) {
  check_cuda(cudaDeviceSynchronize(), "the device");
  const auto same = [](const RunningEpisode& a, const RunningEpisode& b) {
    return a.total_reward == b.total_reward && a.first == b.first && a.next == b.next;
  };
  const auto same_ended = [](const EndedEpisode& a, const EndedEpisode& b) {
    return a.total_reward == b.total_reward && a.first == b.first && a.steps == b.steps && a.number == b.number &&
           a.end == b.end && a.success == b.success;
  };
  if (device.observation.to_host() != host.observation) return "observations";
  if (device.action.to_host() != host.action) return "actions";
  if (device.reward.to_host() != host.reward) return "rewards";
  if (device.fresh_N.to_host() != host.fresh_N) return "fresh rows";
  if (device.steps_N.to_host() != host.steps_N) return "steps";
  if (device.ended_N.to_host() != host.ended_N) return "numbers of ended episodes";
  if (!std::ranges::equal(device.running_N.to_host(), host.running_N, same)) return "running episodes";
  if (!std::ranges::equal(device.ended_NE.to_host(), host.ended_NE, same_ended)) return "ended episodes";
  return "";
}

// The rules of CudaVecEnv::restart and play, row by row on the CPU.
class PlainPlay {
 public:
  PlainPlay(VecEnv& env, HostRecording& recording)
      : env_(env), recording_(recording), number_N_(static_cast<std::size_t>(env.size())) {}

  void restart(const std::vector<std::uint32_t>& number_N) {
    for (int i = 0; i < env_.size(); ++i) begin(i, number_N[static_cast<std::size_t>(i)]);
  }
  void play(const std::vector<std::int32_t>& action_N) {
    for (int i = 0; i < env_.size(); ++i) {
      const std::int32_t action = action_N[static_cast<std::size_t>(i)];
      if (action == kNoAction) continue;
      env_.step_row(i, action);
      const End end = env_.end_N()[i];
      observe(i, record_step(recording_.recorder, i, action, env_.reward_N()[i], end, env_.success_N()[i] != 0,
                             number_N_[static_cast<std::size_t>(i)]));
      if (end != End::kNone) begin(i, number_N_[static_cast<std::size_t>(i)] + 1);
    }
  }

 private:
  void begin(int i, std::uint32_t number) {
    number_N_[static_cast<std::size_t>(i)] = number;
    env_.reset_row(i, number);
    observe(i, begin_episode(recording_.recorder, i));
    recording_.fresh_N[static_cast<std::size_t>(i)] = 1;
  }
  void observe(int i, std::int64_t row) {
    const EpisodeRows& rows = recording_.recorder.rows;
    std::memcpy(rows.observation_at(row), env_.observation_N().data() + i * rows.row_bytes,
                static_cast<std::size_t>(rows.row_bytes));
  }

  VecEnv& env_;
  HostRecording& recording_;
  std::vector<std::uint32_t> number_N_;
};

// Environments of one task in two stages, the same on both: every odd one is 20 steps ahead, in another episode where
// its first was shorter.
template <class Task>
std::pair<std::unique_ptr<VecEnv>, std::unique_ptr<CudaVecEnv>> make_staggered(int num_envs) {
  const TaskConfig task(Task::kName);
  auto cpu = make_cpu(task, num_envs);
  auto cuda = make_cuda(task, num_envs);
  RandomActions actions(num_envs, cpu->info().num_actions(), 3);
  DeviceRecording recording(cuda->info(), num_envs, 64, 20);
  std::vector<std::uint32_t> number_N(static_cast<std::size_t>(num_envs));
  for (int t = 0; t < 20; ++t) {
    actions.draw([](int i) { return i % 2 == 0; });
    for (int i = 1; i < num_envs; i += 2) {
      const auto row = static_cast<std::size_t>(i);
      cpu->step_row(i, actions.host()[row]);
      if (cpu->end_N()[i] != End::kNone) cpu->reset_row(i, ++number_N[row]);
    }
    cuda->play(actions.device(), recording.recorder, recording.fresh_N.data(), nullptr);
  }
  return {std::move(cpu), std::move(cuda)};
}

// Plays both and records them; returns the first difference.
std::string play_recorded(VecEnv& cpu, CudaVecEnv& cuda, int steps, int ring) {
  const int size = cpu.size();
  constexpr int kMostEnded = 50;
  HostRecording expected(cpu.info(), size, ring, kMostEnded);
  DeviceRecording recording(cpu.info(), size, ring, kMostEnded);
  PlainPlay plain(cpu, expected);
  Views views(cuda);
  RandomActions actions(size, cpu.info().num_actions());
  Rng skips(6, Purpose::kTest, 0, 0);
  // A recording is hundreds of megabytes where episodes are long and images large.
  const int steps_between_looks = 8 * std::max(1, steps / 200);
  const auto found = [&](int t) -> std::string {
    views.fetch(cuda);
    std::string difference_found = views.difference(cpu);
    if (difference_found.empty() && ((t + 1) % steps_between_looks == 0 || t == steps))
      difference_found = difference(recording, expected);
    return difference_found.empty() ? "" : "step " + std::to_string(t) + ": " + difference_found;
  };

  std::vector<std::uint32_t> number_N;
  for (int i = 0; i < size; ++i) number_N.push_back(static_cast<std::uint32_t>(i % 5));
  const DeviceBuffer<std::uint32_t> numbers(number_N);
  plain.restart(number_N);
  cuda.restart(numbers.data(), recording.recorder, recording.fresh_N.data(), nullptr);
  for (int t = 0;; ++t) {
    if (std::string difference_found = found(t); !difference_found.empty() || t == steps) return difference_found;
    actions.draw([&](int) { return skips.below(8) == 0; });
    plain.play(actions.host());
    cuda.play(actions.device(), recording.recorder, recording.fresh_N.data(), nullptr);
    if (t % 40 != 39) continue;  // whoever acts and whoever looks
    std::ranges::fill(expected.fresh_N, 0);
    std::ranges::fill(expected.ended_N, 0);
    check_cuda(cudaMemset(recording.fresh_N.data(), 0, expected.fresh_N.size()), "memset");
    check_cuda(cudaMemset(recording.ended_N.data(), 0, 4 * expected.ended_N.size()), "memset");
  }
}

}  // namespace

TEST_CASE("a whole episode of up to 100,000 environments gives the CPU's bytes at every step") {
  if (skip_without_gpu()) return;
  // Every task with 100,000. Of its other settings as many as show these bytes of observations in a whole episode, all
  // of which are copied: long episodes of large images would take minutes each.
  constexpr std::int64_t kEnvs = 100'000, kBytes = 2'000'000'000;
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

TEST_CASE("environments at different points of their episodes are reset one by one") {
  if (skip_without_gpu()) return;
  AllTasks::for_each([]<class Task>() {
    CAPTURE(Task::kName);
    const auto [cpu, cuda] = make_staggered<Task>(301);
    CHECK(play_both(*cpu, *cuda, 3 * cpu->info().max_episode_steps) == "");
  });
}

TEST_CASE("an environment whose episode has ended stays as it is until it is reset") {
  if (skip_without_gpu()) return;
  AllTasks::for_each([]<class Task>() {
    CAPTURE(Task::kName);
    constexpr int kEnvs = 301, kStepsMore = 3;
    const auto [cpu, cuda] = make_staggered<Task>(kEnvs);
    Views views(*cuda);
    RandomActions actions(kEnvs, cuda->info().num_actions(), 2);
    int ended = 0;
    std::string difference;
    for (int t = 0; t < cpu->info().max_episode_steps + kStepsMore && difference.empty(); ++t) {
      actions.draw();
      ended = 0;
      for (int i = 0; i < kEnvs; ++i)
        if (cpu->end_N()[i] == End::kNone)
          cpu->step_row(i, actions.host()[static_cast<std::size_t>(i)]);
        else
          ++ended;
      cuda->step(actions.device(), nullptr);
      views.fetch(*cuda);
      difference = views.difference(*cpu);
    }
    CHECK(difference == "");
    CHECK(ended == kEnvs);
    cpu->reset_finished();
    cuda->reset_finished(nullptr);
    views.fetch(*cuda);
    CHECK(views.difference(*cpu) == "");
  });
}

TEST_CASE("a replayed graph plays as launches do") {
  if (skip_without_gpu()) return;
  constexpr int kEnvs = 500, kReplays = 60;
  for (const TaskConfig& task : many_tasks()) {
    CAPTURE(text_of(task));
    const auto cpu = make_cpu(task, kEnvs);
    const auto cuda = make_cuda(task, kEnvs);
    const int num_actions = cpu->info().num_actions();
    RandomActions first(kEnvs, num_actions, 0), second(kEnvs, num_actions, 1);
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

TEST_CASE("playing records what the CPU's steps record, row by row, and begins the next episodes") {
  if (skip_without_gpu()) return;
  for (const TaskConfig& task : many_tasks())
    for (const int num_envs : {1, 300}) {
      CAPTURE(text_of(task));
      CAPTURE(num_envs);
      const auto cpu = make_cpu(task, num_envs);
      const auto cuda = make_cuda(task, num_envs);
      const int longest = cpu->info().max_episode_steps;
      CHECK(play_recorded(*cpu, *cuda, 2 * longest + 30, longest + 2) == "");
      cuda->check(nullptr);
    }
  CpuVecEnv<RaggedTask> cpu({}, 7, Purpose::kTraining, 300, 1);
  CHECK(play_recorded(cpu, *make_ragged_cuda_env(7, Purpose::kTraining, 300), 300, 123) == "");
  CpuVecEnv<RaggedTask> other({}, 8, Purpose::kTraining, 300, 1);  // the comparison sees other episodes
  CHECK(play_recorded(other, *make_ragged_cuda_env(7, Purpose::kTraining, 300), 300, 123) != "");
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

  // Of play: nothing is recorded of it.
  const auto played = make_cuda(task, 200);
  DeviceRecording recording(played->info(), 200, 10, 1);
  actions.set(170, 0);
  actions.set(150, 4);
  played->play(actions.device(), recording.recorder, recording.fresh_N.data(), nullptr);
  CHECK_THROWS_WITH_AS(played->check(nullptr), "action 4 of environment 150 is not one of 0..3", std::invalid_argument);
  const std::vector<std::int32_t> steps_N = recording.steps_N.to_host();
  for (int i = 0; i < 200; ++i) CHECK(steps_N[static_cast<std::size_t>(i)] == (i == 150 ? 0 : 1));
}
