// CudaVecEnv::play and restart, which record episodes, against the same rules row by row on the CPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "envs/all_tasks.h"
#include "envs/vec/episode_rows.h"
#include "tests/envs/vec/cuda_play.h"
#include "tests/envs/vec/ragged_env.h"
#include "tests/envs/vec/ragged_task.h"
#include "tests/gpu.h"

using namespace engram;
using namespace engram::testing;

namespace {

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
        log_prob(std::vector<float>(num_envs * ring)),
        running_N(std::vector<RunningEpisode>(num_envs)),
        ended_NE(std::vector<EndedEpisode>(num_envs * most_ended)),
        recorder{ring,
                 most_ended,
                 {task.observation.bytes(), observation.data(), action.data(), reward.data(), log_prob.data()},
                 running_N.data(),
                 steps_N.data(),
                 ended_N.data(),
                 ended_NE.data()} {
    recorder.rows.action_numbers = static_cast<std::int32_t>(task.action.numbers.size());
  }
  static std::vector<std::uint8_t> bytes(std::size_t size) { return std::vector<std::uint8_t>(size); }

  Buffer<std::uint8_t> observation, fresh_N;
  Buffer<std::int32_t> action, steps_N, ended_N;
  Buffer<float> reward, log_prob;
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
  // The two have logarithms of their own.
  const auto close = [](float a, float b) { return std::abs(a - b) <= 1e-6f * (1 + std::abs(b)); };
  if (!std::ranges::equal(device.log_prob.to_host(), host.log_prob, close)) return "log-probabilities";
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
  void play(const std::vector<std::int32_t>& action_N, const std::vector<float>& probabilities_NA) {
    const int policy_numbers = env_.info().action.policy_numbers();
    for (int i = 0; i < env_.size(); ++i) {
      const std::int32_t action = action_N[static_cast<std::size_t>(i)];
      if (action == kNoAction) continue;
      env_.step_row(i, action);
      const End end = env_.end_N()[i];
      const float* const own = probabilities_NA.data() + i * policy_numbers;
      observe(i,
              record_step(recording_.recorder, i, &action, log_probability(recording_.recorder.rows, own, &action),
                          env_.reward_N()[i], end, env_.success_N()[i] != 0, number_N_[static_cast<std::size_t>(i)]));
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
  RandomActions actions(num_envs, cpu->info().action, 3);
  DeviceRecording recording(cuda->info(), num_envs, 64, 20);
  std::vector<std::uint32_t> number_N(static_cast<std::size_t>(num_envs));
  for (int t = 0; t < 20; ++t) {
    actions.draw([](int i) { return i % 2 == 0; });
    for (int i = 1; i < num_envs; i += 2) {
      const auto row = static_cast<std::size_t>(i);
      cpu->step_row(i, actions.host()[row]);
      if (cpu->end_N()[i] != End::kNone) cpu->reset_row(i, ++number_N[row]);
    }
    cuda->play(actions.device(), nullptr, recording.recorder, recording.fresh_N.data(), nullptr);
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
  RandomActions actions(size, cpu.info().action);
  Rng skips(6, Purpose::kTest, 0, 0);
  std::vector<float> probabilities_NA;
  for (int i = 0; i < size * cpu.info().action.policy_numbers(); ++i)
    probabilities_NA.push_back(static_cast<float>(1 + i % 97) / 100);
  const DeviceBuffer<float> probabilities(probabilities_NA);
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
    plain.play(actions.host(), probabilities_NA);
    cuda.play(actions.device(), probabilities.data(), recording.recorder, recording.fresh_N.data(), nullptr);
    if (t % 40 != 39) continue;  // whoever acts and whoever looks
    std::ranges::fill(expected.fresh_N, 0);
    std::ranges::fill(expected.ended_N, 0);
    check_cuda(cudaMemset(recording.fresh_N.data(), 0, expected.fresh_N.size()), "memset");
    check_cuda(cudaMemset(recording.ended_N.data(), 0, 4 * expected.ended_N.size()), "memset");
  }
}

}  // namespace

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
    RandomActions actions(kEnvs, cuda->info().action, 2);
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
  RandomActions actions(200, {.names = {"+x"}, .numbers = {}});
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
  played->play(actions.device(), nullptr, recording.recorder, recording.fresh_N.data(), nullptr);
  CHECK_THROWS_WITH_AS(played->check(nullptr), "action 4 of environment 150 is not one of 0..3", std::invalid_argument);
  const std::vector<std::int32_t> steps_N = recording.steps_N.to_host();
  for (int i = 0; i < 200; ++i) CHECK(steps_N[static_cast<std::size_t>(i)] == (i == 150 ? 0 : 1));
}
