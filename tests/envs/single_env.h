// One environment of a task: how a test makes it, what it shows and how it steps.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "envs/vec/vec_env.h"
#include "tests/envs/tasks/task_settings.h"

namespace engram::testing {

inline std::unique_ptr<VecEnv> single_env(const std::string& name, const Settings& settings, std::uint64_t seed = 11) {
  TaskConfig task(name);
  OptionList options = task.options();
  for (const auto& [key, value] : settings) options.set("task." + key, value);
  return make_cpu_vec_env(task, seed, Purpose::kTest, 1, 1);
}

inline Settings with_full_state(Settings settings, bool full_state) {
  settings.emplace_back("full_state", full_state ? "true" : "false");
  return settings;
}

// Of a task whose observations are vectors.
inline std::vector<float> observation_of(const VecEnv& environment) {
  std::vector<float> observation(static_cast<std::size_t>(environment.info().observation.elements()));
  std::memcpy(observation.data(), environment.observation_N().data(), observation.size() * sizeof(float));
  return observation;
}

inline void step(VecEnv& environment, std::int32_t action) { environment.step({&action, 1}); }

}  // namespace engram::testing
