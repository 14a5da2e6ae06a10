// Launch: where a program stands among those that a launcher started together, by the environment that it gave them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

namespace engram {

struct Launch {
  int rank = 0, size = 1;
  // Where they meet: a store of keys and values, kept by the launcher, or by rank 0 for the others.
  std::string address;
  std::uint16_t port = 0;
  bool store_is_launchers = false;
  std::string attempt = {};  // what a launcher that starts them again calls this time

  bool alone() const { return size == 1; }
};

// The value of an environment variable; null where it is not set.
using EnvironmentOf = std::function<const char*(const char* name)>;

// What torchrun sets (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE,
// TORCHELASTIC_RESTART_COUNT), which anybody may set by hand, or what srun sets for a step of several tasks
// (SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST, SLURM_JOB_ID, SLURM_STEP_ID): then MASTER_ADDR and
// MASTER_PORT are optional. Where it names neither, a program that is alone. Throws UserError, naming the variable and
// its value, for what is missing or wrong.
Launch launch_of(const EnvironmentOf& environment);

// The variables that make a program one of several, for those who start programs that are not.
inline constexpr std::array<const char*, 2> kLaunchVariables = {"WORLD_SIZE", "SLURM_STEP_NUM_TASKS"};

}  // namespace engram
