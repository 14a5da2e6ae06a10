// What the tests of a GPU's environments share: the settings that they play, and playing them beside the CPU's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/machine/processors.h"
#include "base/rng.h"
#include "envs/vec/cpu_vec_env.h"
#include "envs/vec/cuda_vec_env.h"
#include "envs/vec/vec_env.h"
#include "kernels/common/cuda_support.h"

namespace engram::testing {

inline TaskConfig task_with(const std::string& name, const std::vector<std::pair<std::string, std::string>>& values) {
  TaskConfig task(name);
  OptionList options = task.options();
  for (const auto& [key, value] : values) options.set("task." + key, value);
  return task;
}

inline std::vector<TaskConfig> default_tasks() {
  std::vector<TaskConfig> tasks;
  for (const std::string& name : task_names()) tasks.emplace_back(name);
  return tasks;
}

inline std::vector<TaskConfig> many_tasks() {
  std::vector<TaskConfig> tasks = default_tasks();
  tasks.push_back(TaskConfig::from_preset("visual_match_hqlt"));
  tasks.push_back(task_with("visual_match", {{"active", "true"}, {"colours", "reference"}, {"num_apples", "22"}}));
  tasks.push_back(
      task_with("visual_match", {{"colours", "fixed"}, {"respawn_every", "1"}, {"distractor_steps", "300"}}));
  tasks.push_back(task_with("key_to_door", {{"variant", "cca"}, {"reward_steps", "15"}, {"respawn_every", "0"}}));
  tasks.push_back(task_with("key_to_door", {{"distractor_steps", "0"}}));
  tasks.push_back(task_with("tmaze", {{"active", "true"}, {"corridor_length", "20"}}));
  tasks.push_back(task_with("tmaze", {{"corridor_length", "20"}, {"rewrites", "7"}}));
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
  for (const char* const preset :
       {"velocity_only_cartpole_hard", "noisy_position_only_cartpole_hard", "noisy_position_only_pendulum_hard"})
    tasks.push_back(TaskConfig::from_preset(preset));
  tasks.push_back(task_with("cartpole", {{"sees", "velocities"}, {"noise", "0.5"}, {"shows_start", "false"}}));
  for (const char* const preset : {"dark_room_hard_17", "memory_maze_15x15", "endless_tmaze_uniform",
                                   "labyrinth_escape_hard", "labyrinth_explore_hard", "mortar_mayhem_act_grid",
                                   "mortar_mayhem_endless", "mystery_path_grid_on", "mystery_path_endless"})
    tasks.push_back(TaskConfig::from_preset(preset));
  for (const char* const name : {"dark_room", "dark_key_to_door"})
    tasks.push_back(task_with(name, {{"size", "3"}, {"random_actions", "true"}, {"full_state", "true"}}));
  // The largest state and the most answers.
  tasks.push_back(task_with("count_recall", {{"num_decks", "4"}, {"full_state", "true"}}));
  for (const std::string& name : task_names()) tasks.push_back(task_with(name, {{"full_state", "true"}}));
  return tasks;
}

inline std::string text_of(const TaskConfig& task) {
  std::string text = task.name();
  for (const OptionValue& option : task.values()) text += " " + option.name + "=" + option.text;
  return text;
}

inline std::unique_ptr<VecEnv> make_cpu(const TaskConfig& task, int num_envs, std::uint64_t seed = 7,
                                        std::uint32_t first_environment = 0) {
  const int threads = available_processors();
  return make_cpu_vec_env(task, seed, Purpose::kTraining, num_envs, worthwhile_threads(num_envs, threads),
                          first_environment);
}
inline std::unique_ptr<CudaVecEnv> make_cuda(const TaskConfig& task, int num_envs, std::uint64_t seed = 7,
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
  // Of actions of a single word.
  RandomActions(int num_envs, const ActionSpec& spec, std::uint32_t stream = 0)
      : rng_(5, Purpose::kAction, stream, 0), spec_(spec), host_(num_envs), device_(host_.size()) {}

  void draw() {
    draw([](int) { return false; });
  }
  // None for the rows that `skips` names.
  template <class Skips>
  void draw(Skips skips) {
    for (std::int32_t& action : host_) draw_action(spec_, rng_, &action);
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
  ActionSpec spec_;
  std::vector<std::int32_t> host_;
  DeviceBuffer<std::int32_t> device_;
};

// Plays `steps` steps on both, and resets before each those whose episodes have ended; returns the first difference.
// `endings`, if given, becomes the number of episodes that ended in each environment.
inline std::string play_both(VecEnv& cpu, CudaVecEnv& cuda, int steps, std::vector<int>* endings = nullptr) {
  Views views(cuda);
  RandomActions actions(cuda.size(), cuda.info().action);
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

}  // namespace engram::testing
